"""What must hold after any schedule of faults, judged from outside: API, files, /proc and what passed the proxy."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.faults.evidence import JobEvidence
from tests.faults.record import Exchange, Record
from worker_core.wire.vocabulary import JOB_END_STATES

_WRITES = ("events", "artifacts", "complete")
_OWN: dict[str, tuple[str, ...]] = {
    "raise": ("exception",),
    "memory": ("out-of-memory",),
    "die": ("signal",),
    "leave": ("exception",),
}
"""How a job fails by itself, by its kind."""
_INJECTED: dict[str, tuple[str, ...]] = {
    "kill-job": ("signal",),
    "kill-core": ("crash",),
    "full-disk": ("disk-full",),
}
"""How a fault makes any job fail."""
_ANY = ("canceled", "lost")
_COMPARED = ("t", "step", "values", "text", "stream", "sha256", "size")


@dataclass
class Counts:
    """How much was checked, so that nobody takes an empty check for a good one."""

    points: int = 0
    events: int = 0
    artifacts: int = 0
    compared_hashes: int = 0
    stale_refused: int = 0


@dataclass(frozen=True)
class _Grant:
    """An attempt that was accepted."""

    attempt: str
    job: str
    epoch: int
    worker: str | None
    answered_at: float


def ended_jobs(jobs: Iterable[JobEvidence], *, workers_left: bool) -> Iterator[str]:
    """Every job has one terminal state, or waits for a reason that a person made."""
    for job in jobs:
        view = job.view
        if view.state in JOB_END_STATES:
            continue
        if view.state == "queued" and not workers_left and view.reason:
            continue
        yield f"job {view.name} is {view.state} ({view.reason}) in the end"


def one_outcome(jobs: Iterable[JobEvidence]) -> Iterator[str]:
    """A job that succeeded did so once, and in its newest attempt."""
    for job in jobs:
        won = [attempt for attempt in job.view.attempts if attempt.state == "succeeded"]
        newest = max(job.view.attempts, key=lambda attempt: attempt.ordinal, default=None)
        if len(won) > 1:
            yield f"job {job.view.name} succeeded {len(won)} times"
        if job.view.state == "succeeded" and (newest is None or newest.state != "succeeded"):
            yield f"job {job.view.name} succeeded, its newest attempt did not: {newest}"
        epochs = Counter(attempt.epoch for attempt in job.view.attempts)
        if any(count > 1 for count in epochs.values()):
            yield f"job {job.view.name} gave one epoch to two attempts: {dict(epochs)}"


def failures_have_a_cause(jobs: Iterable[JobEvidence], faults: Mapping[str, int]) -> Iterator[str]:
    """An attempt fails only as its job was made to fail, or as a fault makes any job fail."""
    injected = {failure for fault, failures in _INJECTED.items() if faults.get(fault) for failure in failures}
    for job in jobs:
        own = _OWN.get(job.view.name.partition("-")[0], ())
        for attempt in job.view.attempts:
            if attempt.error_class is not None and attempt.error_class not in (*own, *injected, *_ANY):
                yield f"{job.view.name} attempt {attempt.ordinal} failed: {attempt.error_class}: {attempt.error}"


def fenced(record: Record, counts: Counts) -> Iterator[str]:
    """No write of an attempt was taken after a newer attempt of the same job had been granted."""
    grants = list(_grants(record))
    by_attempt = {grant.attempt: grant for grant in grants}
    repeated: set[tuple[str, str]] = set()
    for item in record:
        mine = by_attempt.get(item.attempt or "")
        if mine is None or item.verb not in _WRITES:
            continue
        newer = [
            other
            for other in grants
            if other.job == mine.job and other.epoch > mine.epoch and other.answered_at < item.sent_at
        ]
        if item.status == 409 and newer:
            counts.stale_refused += 1
        # A completion that was taken before is answered the same again.
        again = item.verb == "complete" and (mine.attempt, item.verb) in repeated
        if item.granted:
            repeated.add((mine.attempt, item.verb))
        if item.granted and newer and not again:
            yield f"a late {item.verb} of {mine.attempt}, epoch {mine.epoch}, was taken after epoch {newer[0].epoch}"


def silent_after_revocation(record: Record, worker: str, revoked_at: float) -> Iterator[str]:
    """Nothing of a worker is taken after its revocation was answered."""
    for item in record:
        if item.worker == worker and item.sent_at > revoked_at and item.granted and item.verb != "sessions":
            yield f"{item.method} {item.path} of a revoked worker was answered {item.status}"


def each_point_once(jobs: Iterable[JobEvidence], record: Record, counts: Counts) -> Iterator[str]:
    """Whatever was acknowledged is stored under its number, once, and nothing else is."""
    acknowledged = _acknowledged(record)
    for job in jobs:
        for attempt in job.view.attempts:
            stored = job.events.get(attempt.id, [])
            counts.events += len(stored)
            yield from _no_gap(job.view.name, attempt.id, stored)
            yield from _as_acknowledged(job.view.name, attempt.id, dict(stored), acknowledged.get(attempt.id, {}))
            keys = [(name, event["step"]) for _, event in job.metrics(attempt.id) for name in event["values"]]
            counts.points += len(keys)
            twice = [key for key, count in Counter(keys).items() if count > 1]
            if twice:
                yield f"job {job.view.name} attempt {attempt.ordinal}: points twice: {twice[:3]}"
        shown = Counter((point.attempt, point.name, point.step) for point in job.points)
        twice = [key for key, count in shown.items() if count > 1]
        if twice:
            yield f"job {job.view.name} shows points twice: {twice[:3]}"


def whole_series(jobs: Iterable[JobEvidence], fragment: int) -> Iterator[str]:
    """The attempt that succeeded has a loss for every update from where it began to the end, in order."""
    for job in jobs:
        for attempt in job.view.attempts:
            if attempt.state != "succeeded":
                continue
            steps = [event["step"] for _, event in job.metrics(attempt.id) if "train/loss" in event["values"]]
            if steps != list(range(steps[0], steps[-1] + 1, fragment)) if steps else False:
                yield f"job {job.view.name} attempt {attempt.ordinal} lacks updates: {steps[:5]} … {steps[-3:]}"


def files_as_written(jobs: Iterable[JobEvidence], counts: Counts) -> Iterator[str]:
    """Every stored file is what the trainer wrote, byte for byte."""
    for job in jobs:
        ids = {attempt.ordinal: attempt.id for attempt in job.view.attempts}
        for artifact in job.artifacts:
            if artifact.state != "ready":
                continue
            counts.artifacts += 1
            if job.digests[artifact.id] != artifact.sha256:
                yield f"{artifact.name} of job {job.view.name} is stored with other bytes than it says"
            if artifact.kind == "input":
                continue
            told = job.told_hashes(ids.get(artifact.attempt, "")).get(artifact.name)
            if told is not None:
                counts.compared_hashes += 1
                if told != artifact.sha256:
                    yield f"{artifact.name} of job {job.view.name} is not the file that the trainer wrote"
        if job.view.state == "succeeded":
            names = {artifact.name for artifact in job.artifacts if artifact.kind == "result"}
            if "policy.safetensors" not in names:
                yield f"job {job.view.name} succeeded without its policy: {sorted(names)}"


def _grants(record: Record) -> Iterator[_Grant]:
    for item in record:
        lease: dict[str, Any] = item.answered.get("lease", {})
        if item.verb == "accept" and item.granted and item.attempt and "job_id" in item.answered:
            yield _Grant(item.attempt, item.answered["job_id"], lease["epoch"], item.worker, item.answered_at)


def _acknowledged(record: Record) -> dict[str, dict[int, dict[str, Any]]]:
    """Return per attempt the events that the coordinator said it has, by number."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for item in record:
        if item.verb == "events" and item.granted and item.attempt:
            mine = found.setdefault(item.attempt, {})
            for number, event in _numbered(item):
                mine.setdefault(number, event)  # sent again, it is dropped in silence
    return found


def _numbered(item: Exchange) -> Iterator[tuple[int, dict[str, Any]]]:
    number: int = item.asked.get("first_seq", 0)
    for event in item.asked.get("events", []):
        if number >= item.answered.get("next_seq", 0):
            return
        yield number, event
        number += event.get("seqs", 1)


def _no_gap(name: str, attempt: str, stored: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    expected = 0
    for seq, event in stored:
        if seq != expected:
            yield f"job {name} attempt {attempt}: event {expected} is missing, {seq} follows"
            return
        expected += event.get("seqs", 1)


def _as_acknowledged(
    name: str, attempt: str, stored: dict[int, dict[str, Any]], acknowledged: dict[int, dict[str, Any]]
) -> Iterator[str]:
    for seq, event in acknowledged.items():
        if seq not in stored:
            yield f"job {name} attempt {attempt}: event {seq} was acknowledged and is gone: {event}"
            return
        if any(stored[seq].get(key) != event.get(key) for key in _COMPARED):
            yield f"job {name} attempt {attempt}: event {seq} is not what was acknowledged: {event} / {stored[seq]}"
            return
