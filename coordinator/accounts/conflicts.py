"""What the coordinator knows of a worker's connection before a newcomer, and what it does when two machines are one.

An alarm changes three things: the newcomer stays outside, the connection that is there keeps its job, and neither gets
offers. Only a person ends it: Keep gives the present connection a new key, Revoke ends the worker.
"""

import json
from typing import cast

from sqlalchemy import Connection, select, update

from coordinator.accounts.audit import COORDINATOR, record
from coordinator.accounts.clone_rules import WHY, Incumbent, Knock, Newcomer, Rule, Standing
from coordinator.accounts.work_side import WorkSide
from coordinator.storage.database import AnyRow, after_commit
from coordinator.storage.schema import session, worker
from worker_core.wire.codec import Message, decode, encode
from worker_core.wire.problems import ProblemError, problem
from worker_core.wire.session import SessionRequest

MAX_ACCUSED = 64


class Conflict(Message):
    """Why offers are held back, as the worker's row keeps it."""

    rule: Rule
    at: float
    accused: tuple[str, ...] = ()
    """Starts that stay outside: the newcomer's, and later ones of it."""
    present_ip: str = ""
    newcomer_ip: str = ""

    @property
    def words(self) -> str:
        """What happened, for a person."""
        where = f" (present connection from {self.present_ip}, the other from {self.newcomer_ip})"
        return WHY[self.rule] + (where if self.present_ip and self.newcomer_ip else "")


def conflict_of(row: AnyRow) -> Conflict | None:
    """Return the conflict a worker's row tells of."""
    return decode(row.conflict, Conflict) if row.conflict else None


def newcomer_of(request: SessionRequest) -> Newcomer:
    """Read who asks for the connection."""
    return Newcomer(request.instance_id, request.boot_id, frozenset(request.prev_instance_ids))


def standing_of(conn: Connection, row: AnyRow, newcomer: Newcomer, *, alive: bool, generation: int) -> Standing:
    """Read what is known of a worker's connection; the newest one counts even after its goodbye."""
    newest = newest_session(conn, row.id)
    earlier = select(session).where(
        session.c.worker_id == row.id,
        session.c.instance_id == newcomer.instance_id,
        session.c.end_reason == "replaced",
    )
    conflict = conflict_of(row)
    return Standing(
        incumbent=None
        if newest is None
        else Incumbent(
            instance_id=newest.instance_id,
            boot_id=newest.boot_id,
            previous=frozenset(cast("list[str]", json.loads(newest.previous))),
            begun_at=newest.created_at,
            alive=alive and newest.ended_at is None,
            restored=newest.generation < generation,
        ),
        replaced_at={found.instance_id: found.ended_at for found in conn.execute(earlier)},
        knock=decode(row.knock, Knock) if row.knock else None,
        accused=frozenset(conflict.accused) if conflict else frozenset(),
    )


def newest_session(conn: Connection, worker_id: str) -> AnyRow | None:
    """Return a worker's newest connection, ended or not."""
    query = select(session).where(session.c.worker_id == worker_id)
    return conn.execute(query.order_by(session.c.created_at.desc(), session.c.id.desc()).limit(1)).first()


def raise_alarm(
    conn: Connection, row: AnyRow, rule: Rule, instance_id: str, ip: str, now: float, work: WorkSide
) -> ProblemError:
    """Note the conflict, tell everybody concerned, and return the newcomer's answer."""
    before = conflict_of(row)
    if before is None:
        newest = newest_session(conn, row.id)
        conflict = Conflict(rule=rule, at=now, present_ip=newest.ip if newest else "", newcomer_ip=ip)
    else:
        conflict = before
    if instance_id and instance_id not in conflict.accused:
        accused = (*conflict.accused, instance_id)[-MAX_ACCUSED:]
        conflict = Conflict(
            rule=conflict.rule,
            at=conflict.at,
            accused=accused,
            present_ip=conflict.present_ip,
            newcomer_ip=conflict.newcomer_ip,
        )
    if conflict != before:
        values: dict[str, object] = {"conflict": encode(conflict).decode(), "knock": None}
        if before is None:
            values["rev"] = worker.c.rev + 1
            record(conn, row.account_id, now, COORDINATOR, "conflict", row.id, row.name, conflict.words)
        conn.execute(update(worker).where(worker.c.id == row.id).values(**values))
        work.record_change(conn, row.account_id, "worker", row.id)
        after_commit(conn, lambda: work.wake_worker(row.id))
    return problem(
        "credential-conflict",
        f"{conflict.words}. A person decides in the console: Keep leaves the machine that is connected, "
        "Revoke ends both",
    )


def note_knock(conn: Connection, row: AnyRow, knock: Knock | None) -> None:
    """Keep since when another boot has been asking."""
    text = encode(knock).decode() if knock else None
    if text != row.knock:
        conn.execute(update(worker).where(worker.c.id == row.id).values(knock=text))
