"""What a worker may do right now: its authorization row, read as rules."""

from typing import Literal

from sqlalchemy import Connection, select

from coordinator.clock import rfc3339
from coordinator.storage.database import AnyRow
from coordinator.storage.schema import session, worker
from worker_core.wire.problems import ProblemError, problem
from worker_core.wire.session import Authorization

Held = Literal["", "credential-conflict", "confirm-needed"]


def authorization_of(row: AnyRow, now: float) -> Authorization:
    """Return a worker's authorization as it is sent and shown."""
    cap = hard_cap_at(row)
    return Authorization(
        expires_at=rfc3339(row.auth_expires_at),
        remaining_s=max(0.0, row.auth_expires_at - now),
        extend_while_healthy=bool(row.extend_while_healthy),
        hard_cap_at=None if cap is None else rfc3339(cap),
    )


def hard_cap_at(row: AnyRow) -> float | None:
    """Return until when a worker may extend by itself: a time after a person last acted."""
    return None if row.hard_cap_s is None else row.person_acted_at + row.hard_cap_s


def may_take_work(row: AnyRow, now: float) -> bool:
    """Tell whether a worker may be offered a job, as far as the coordinator's side decides it."""
    may = row.revoked_at is None and row.auth_expires_at > now and row.console_mode == "run"
    return may and not held_back(row)


def held_back(row: AnyRow) -> Held:
    """Return why a worker gets no offers until a person decides; nothing where it may get them."""
    if row.conflict is not None:
        return "credential-conflict"
    return "confirm-needed" if row.confirm_at is not None else ""


def key_replaced(past: AnyRow) -> ProblemError:
    """Return the refusal of a key that is not a worker's any more."""
    if past.revocation is not None:
        return problem("worker-revoked", "this worker was revoked", signed=past.revocation)
    return problem(
        "key-replaced",
        f"this worker changed its key {rfc3339(past.ended_at)}, and this computer has the older one. If another "
        "machine had a copy of the credential, that one was kept: unpair here and pair again",
    )


def worker_revoked(row: AnyRow) -> ProblemError:
    """Return the signed refusal that makes a worker forget everything."""
    return problem("worker-revoked", f"{row.name} was revoked {rfc3339(row.revoked_at)}", signed=row.revocation)


def assert_worker_live(conn: Connection, worker_id: str, session_id: str) -> AnyRow:
    """Return the worker's row if it is not revoked and this is its connection; call it first in every transaction."""
    row = conn.execute(select(worker).where(worker.c.id == worker_id)).first()
    if row is None:
        raise problem("worker-unknown", f"no worker {worker_id}")
    if row.revoked_at is not None:
        raise worker_revoked(row)
    if row.session_id != session_id:
        raise ended_session(conn, session_id)
    return row


def ended_session(conn: Connection, session_id: str) -> ProblemError:
    """Return why a connection is not the worker's any more."""
    reason = conn.execute(select(session.c.end_reason).where(session.c.id == session_id)).scalar()
    if reason == "replaced":
        return problem("session-replaced", "a newer connection of this worker took over")
    return problem("session-ended", "connect again")
