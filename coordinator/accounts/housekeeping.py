"""Rows that nobody needs any more."""

from sqlalchemy import Connection, delete

from coordinator.settings import Settings
from coordinator.storage.idempotency import forget_old_answers
from coordinator.storage.schema import login, pairing, worker_token

PAIRINGS_KEPT_S = 86400.0


def forget_old_rows(conn: Connection, settings: Settings, now: float) -> None:
    """Drop expired tokens and log-ins, pairings of yesterday, and answers kept for repetition."""
    conn.execute(delete(worker_token).where(worker_token.c.expires_at < now - settings.token_ttl_s))
    conn.execute(delete(login).where(login.c.expires_at < now))
    conn.execute(delete(pairing).where(pairing.c.expires_at < now - PAIRINGS_KEPT_S))
    forget_old_answers(conn, now - settings.idempotency_keep_s)
