"""From an approved pairing to a worker: the row that says what the workstation may do, and until when."""

import json

from sqlalchemy import Connection, insert

from coordinator.accounts.audit import record
from coordinator.accounts.people import Person
from coordinator.accounts.workers import check_name_free, checked_scopes
from coordinator.storage.database import AnyRow
from coordinator.storage.schema import worker
from worker_core.wire.ids import new_id
from worker_core.wire.pairing import PairingApproval
from worker_core.wire.problems import problem

LONGEST_CAP_S = 100 * 365 * 86400.0


def insert_worker(
    conn: Connection,
    waiting: AnyRow,
    person: Person,
    approval: PairingApproval,
    now: float,
    hard_cap_s: float,
) -> str:
    """Write the worker of a waiting pairing and return its id."""
    check_name_free(conn, person.account_id, approval.name)
    worker_id = new_id("wrk")
    cap_s = approval.hard_cap_s or hard_cap_s
    if cap_s > LONGEST_CAP_S:
        raise problem("invalid-request", "hard_cap_s is at most a hundred years")
    scopes = checked_scopes(approval.job_scopes)
    conn.execute(
        insert(worker).values(
            id=worker_id,
            account_id=person.account_id,
            name=approval.name,
            thumbprint=waiting.thumbprint,
            created_at=now,
            approved_by=person.email,
            host=waiting.host,
            version=waiting.worker_version,
            job_scopes=json.dumps(scopes),
            auth_length_s=approval.authorization_s,
            auth_expires_at=now + min(approval.authorization_s, cap_s),
            extend_while_healthy=approval.extend_while_healthy,
            hard_cap_s=cap_s,
            person_acted_at=now,
        )
    )
    may_run = "any job" if "any" in scopes else ", ".join(scopes) or "nothing"
    detail = f"may run {may_run}; from {waiting.ip}, fingerprint {waiting.fingerprint}"
    record(conn, person.account_id, now, person.email, "approved", worker_id, approval.name, detail)
    return worker_id
