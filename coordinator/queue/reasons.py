"""Why a job waits, in words a person can act on."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import Connection, select

from coordinator.accounts.presence import Presence
from coordinator.accounts.shown_state import shown_state
from coordinator.queue.eligibility import WorkerFacts, facts_of, unfit, without_gpus
from coordinator.queue.rows import Job
from coordinator.storage.schema import worker as worker_table
from worker_core.wire.durations import format_duration
from worker_core.wire.vocabulary import stricter


class Standing(msgspec.Struct, frozen=True):
    """A worker of the account: what it is, and what it does now."""

    facts: WorkerFacts
    state: str


def standings(conn: Connection, presence: Presence, account_id: str, now: float) -> list[Standing]:
    """Return the workers of an account that were neither revoked nor removed."""
    w = worker_table.c
    query = select(worker_table).where(w.account_id == account_id, w.revoked_at.is_(None), w.removed_at.is_(None))
    found: list[Standing] = []
    for row in conn.execute(query):
        contact = presence.of(row.id)
        state = shown_state(row, contact, silent=presence.is_silent(row.id), now=now)
        mode = stricter(row.console_mode, contact.local_mode if contact else "run")
        if state == "available" and mode != "run":
            state = "draining" if mode == "drain" else "paused"
        found.append(Standing(without_gpus(facts_of(row), contact.held_gpus if contact else ()), state))
    return found


def why_waiting(job: Job, workers: Sequence[Standing], offered_to: str, now: float) -> str:
    """Return why a queued job does not run: what happened before, then what it waits for."""
    if job.offered_attempt is not None:
        return f"offered to {offered_to}"
    if job.lost_until is not None:
        return f"{job.reason}; given up in {format_duration(job.lost_until - now)}"
    waits = (
        f"tries again in {format_duration(job.not_before - now)}" if job.not_before > now else _missing(job, workers)
    )
    return f"{job.reason}; {waits}" if job.reason else waits


def _missing(job: Job, workers: Sequence[Standing]) -> str:
    if not workers:
        return "no worker is paired"
    target = job.wanted_target()
    fitting = [worker for worker in workers if unfit(worker.facts, job.kind, target) is None]
    if not fitting:
        words = unfit(workers[0].facts, job.kind, target)
        return f"no worker fits: {workers[0].facts.name} {words}" if len(workers) == 1 else _nobody(job, workers)
    if any(worker.state == "available" for worker in fitting):
        return "waiting for a worker's next poll"
    return f"waiting for an available worker: {_counted(worker.state for worker in fitting)}"


def _nobody(job: Job, workers: Sequence[Standing]) -> str:
    target = job.wanted_target()
    why = Counter(unfit(worker.facts, job.kind, target) for worker in workers)
    told = (f"{f'each of {count}' if count > 1 else 'one'} {words}" for words, count in why.most_common(3))
    return "no worker fits: " + ", ".join(told)


def _counted(states: Iterable[str]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(Counter(states).items()))
