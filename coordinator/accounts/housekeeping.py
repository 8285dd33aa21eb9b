"""Rows that nobody needs any more."""

from sqlalchemy import Connection, delete, exists

from coordinator.accounts.audit import forget_old_entries
from coordinator.settings import Settings
from coordinator.storage.idempotency import forget_old_answers
from coordinator.storage.schema import login, pairing, session, worker_token

PAIRINGS_KEPT_S = 86400.0
CONNECTIONS_KEPT_S = 86400.0


def forget_old_rows(conn: Connection, settings: Settings, now: float) -> None:
    """Drop expired tokens and log-ins, pairings and connections of yesterday, and answers kept for repetition."""
    conn.execute(delete(worker_token).where(worker_token.c.expires_at < now - settings.token_ttl_s))
    # Who still sends a token of an ended connection is told why it ended; after that nobody asks.
    spoken_of = exists().where(worker_token.c.session_id == session.c.id)
    # The newest connection of a worker stays: by it a copied credential is told from an honest restart.
    later = session.alias("later")
    has_newer = exists().where(later.c.worker_id == session.c.worker_id, later.c.created_at > session.c.created_at)
    conn.execute(delete(session).where(session.c.ended_at < now - CONNECTIONS_KEPT_S, ~spoken_of, has_newer))
    conn.execute(delete(login).where(login.c.expires_at < now))
    conn.execute(delete(pairing).where(pairing.c.expires_at < now - PAIRINGS_KEPT_S))
    forget_old_entries(conn, now - settings.audit_keep_s)
    forget_old_answers(conn, now - settings.idempotency_keep_s)
