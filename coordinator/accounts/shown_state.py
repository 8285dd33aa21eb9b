"""Which state of a worker is shown: worked out from rows and contact each time, never stored as claimed."""

from coordinator.accounts.presence import Contact
from coordinator.storage.database import AnyRow


def shown_state(row: AnyRow, contact: Contact | None, *, silent: bool, now: float) -> str:
    """Return the state; the first that matches wins: what we know for sure before what the worker says.

    The last may be a word that only a newer worker knows.
    """
    if row.revoked_at is not None:
        return "revoked"
    if row.auth_expires_at <= now:
        return "expired"
    if row.conflict is not None:
        return "problem"
    if contact is None or silent:
        return "offline"
    if contact.state in ("expired", "revoked", "unpaired", "pairing", "offline"):
        # It has not yet heard of its renewal, or tells of a time before it reached us.
        return "connecting"
    if row.confirm_at is not None and contact.state == "available":
        return "problem"
    return contact.state
