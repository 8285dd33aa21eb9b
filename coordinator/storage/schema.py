"""Tables of people, workers and pairing. Times are unix seconds by the coordinator's clock; secrets only as hashes."""

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, text

metadata = MetaData()

coordinator_row = Table(
    "coordinator",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("generation", Integer, nullable=False),
    # Grows as time goes on; a database that is behind its side file was restored.
    Column("mark", Integer, nullable=False, server_default="0"),
    Column("created_at", Float, nullable=False),
)

account = Table(
    "account",
    metadata,
    Column("id", String, primary_key=True),
    Column("email", String, nullable=False, unique=True),
    Column("password_hash", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

login = Table(
    "login",
    metadata,
    Column("cookie_hash", String, primary_key=True),
    Column("account_id", String, ForeignKey("account.id", ondelete="CASCADE"), nullable=False),
    Column("csrf", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("stepped_up_at", Float, nullable=False),
)

api_token = Table(
    "api_token",
    metadata,
    Column("id", String, primary_key=True),
    Column("account_id", String, ForeignKey("account.id", ondelete="CASCADE"), nullable=False),
    Column("token_hash", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("scopes", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

worker = Table(
    "worker",
    metadata,
    Column("id", String, primary_key=True),
    Column("account_id", String, ForeignKey("account.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("thumbprint", String, nullable=False, unique=True),
    Column("created_at", Float, nullable=False),
    Column("approved_by", String, nullable=False),
    # What it is, as it said at its last connection (JSON).
    Column("host", String, nullable=False),
    Column("version", String, nullable=False),
    Column("capabilities", String, nullable=False, server_default="{}"),
    Column("credential_store", String, nullable=False, server_default=""),
    # What it may do.
    Column("job_scopes", String, nullable=False),
    Column("auth_length_s", Float, nullable=False),
    Column("auth_expires_at", Float, nullable=False),
    Column("extend_while_healthy", Boolean, nullable=False),
    Column("hard_cap_s", Float),
    Column("person_acted_at", Float, nullable=False),
    Column("extended_at", Float),
    Column("renewal_asked_at", Float),
    # What it should do; ``rev`` counts changes of the control document.
    Column("console_mode", String, nullable=False, server_default="run"),
    Column("mode_by", String, nullable=False, server_default=""),
    Column("mode_reason", String, nullable=False, server_default=""),
    Column("mode_at", Float),
    Column("rev", Integer, nullable=False, server_default="1"),
    # What keeps offers back until a person decides: two machines with one credential (JSON), or a restored coordinator.
    Column("conflict", String),
    Column("rekey_at", Float),
    Column("confirm_at", Float),
    # Another boot that asks for the connection while the present one is alive (JSON).
    Column("knock", String),
    # The end.
    Column("revoked_at", Float),
    Column("revocation", String),
    Column("removed_at", Float),
    # The connection that may speak for it, and when it last did (flushed once a second).
    Column("session_id", String),
    Column("contact_at", Float),
    Column("contact", String),
    Index("worker_by_account", "account_id"),
    Index("worker_name", "account_id", "name", unique=True, sqlite_where=text("revoked_at IS NULL")),
)

pairing = Table(
    "pairing",
    metadata,
    Column("id", String, primary_key=True),
    Column("state", String, nullable=False),
    Column("email", String, nullable=False),
    Column("ip", String, nullable=False),
    Column("network", String, nullable=False),
    Column("thumbprint", String, nullable=False),
    Column("device_code_hash", String, nullable=False, unique=True),
    Column("user_code_hash", String, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("device_name", String, nullable=False),
    Column("host", String, nullable=False),
    Column("worker_version", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("lookups", Integer, nullable=False, server_default="0"),
    Column("interval_s", Float, nullable=False),
    Column("polled_at", Float),
    Column("decided_at", Float),
    Column("worker_id", String, ForeignKey("worker.id")),
    Column("approved_by", String),
    Index("pairing_code", "user_code_hash", unique=True, sqlite_where=text("state = 'pending'")),
    Index("pairing_key", "thumbprint"),
)

session = Table(
    "session",
    metadata,
    Column("id", String, primary_key=True),
    Column("worker_id", String, ForeignKey("worker.id"), nullable=False),
    Column("instance_id", String, nullable=False),
    Column("boot_id", String, nullable=False),
    Column("session_seq", Integer, nullable=False),
    # Instances before this one that were named at its start (JSON).
    Column("previous", String, nullable=False, server_default="[]"),
    Column("generation", Integer, nullable=False, server_default="1"),
    Column("ip", String, nullable=False, server_default=""),
    Column("version", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("end_reason", String),
    Index("session_by_worker", "worker_id"),
)

worker_token = Table(
    "worker_token",
    metadata,
    Column("token_hash", String, primary_key=True),
    Column("worker_id", String, ForeignKey("worker.id"), nullable=False),
    Column("session_id", String, ForeignKey("session.id"), nullable=False),
    Column("expires_at", Float, nullable=False),
    Index("worker_token_by_session", "session_id"),
)

past_key = Table(
    "past_key",
    metadata,
    Column("thumbprint", String, primary_key=True),
    Column("worker_id", String, nullable=False),
    Column("ended_at", Float, nullable=False),
    # The signed revocation, of a worker that has no row any more; empty for a key that a newer one replaced.
    Column("revocation", String),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    # Nobody's where it concerns everybody.
    Column("account_id", String),
    Column("at", Float, nullable=False),
    Column("actor", String, nullable=False),
    Column("act", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("subject_id", String, nullable=False),
    Column("detail", String, nullable=False, server_default=""),
    Index("audit_by_account", "account_id", "id"),
    Index("audit_age", "at"),
    sqlite_autoincrement=True,
)

rate_mark = Table(
    "rate_mark",
    metadata,
    Column("name", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("marks", String, nullable=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("body_hash", String, nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("idempotency_age", "created_at"),
)
