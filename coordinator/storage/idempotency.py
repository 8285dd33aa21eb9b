"""Requests that may be sent twice and act once: the answer is kept in the transaction of the effect."""

import hashlib
from collections.abc import Callable

from sqlalchemy import Connection, delete, insert, select

from coordinator.storage.schema import idempotency
from worker_core.wire.problems import problem

Answer = tuple[int, bytes]
MAX_KEY_LENGTH = 200


def idempotent(
    conn: Connection, account_id: str, key: str | None, body: bytes, now: float, act: Callable[[], Answer]
) -> Answer:
    """Run ``act`` once per key and return its (status, body), the stored one when the key was used before.

    The same key with another body is refused. Without a key the effect simply happens. Requests that are being worked
    on need no mark of their own: write transactions follow one another.
    """
    if not key:
        return act()
    if len(key) > MAX_KEY_LENGTH:
        raise problem("invalid-request", f"an Idempotency-Key has at most {MAX_KEY_LENGTH} characters")
    digest = hashlib.sha256(body).hexdigest()
    known = conn.execute(
        select(idempotency).where(idempotency.c.account_id == account_id, idempotency.c.key == key)
    ).first()
    if known is not None:
        if known.body_hash != digest:
            raise problem("idempotency-mismatch", "use a new Idempotency-Key for a new request")
        return known.status, known.body
    status, answer = act()
    conn.execute(
        insert(idempotency).values(
            account_id=account_id, key=key, body_hash=digest, status=status, body=answer, created_at=now
        )
    )
    return status, answer


def forget_old_answers(conn: Connection, before: float) -> None:
    """Drop stored answers made before ``before``."""
    conn.execute(delete(idempotency).where(idempotency.c.created_at < before))
