"""First tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "account",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("password_hash", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("email"),
    )
    op.create_table(
        "artifact",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("attempt_id", sa.Text(), nullable=True),
        sa.Column("ordinal", sa.Integer(), server_default="0", nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("artifact_by_attempt", "artifact", ["attempt_id", "sha256"], unique=False)
    op.create_index("artifact_by_content", "artifact", ["account_id", "sha256"], unique=False)
    op.create_index("artifact_by_job", "artifact", ["job_id", "id"], unique=False)
    op.create_table(
        "blob",
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("used_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "sha256"),
    )
    op.create_table(
        "change",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sqlite_autoincrement=True,
    )
    op.create_index("change_by_account", "change", ["account_id", "seq"], unique=False)
    op.create_table(
        "coordinator",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("mark", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "event",
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("t", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "seq"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "event_logs", "event", ["attempt_id", "seq"], unique=False, sqlite_where=sa.text("t NOT IN ('m', 's')")
    )
    op.create_table(
        "idempotency",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("body_hash", sa.String(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "key"),
    )
    op.create_index("idempotency_age", "idempotency", ["created_at"], unique=False)
    op.create_table(
        "job",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("spec_sha256", sa.Text(), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("max_offline_s", sa.Float(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("ordinal", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("current_attempt", sa.Text(), nullable=True),
        sa.Column("offered_attempt", sa.Text(), nullable=True),
        sa.Column("not_before", sa.Float(), server_default="0", nullable=False),
        sa.Column("lost_until", sa.Float(), nullable=True),
        sa.Column("cancel_at", sa.Float(), nullable=True),
        sa.Column("cancel_by", sa.Text(), server_default="", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("resume_attempt", sa.Text(), nullable=True),
        sa.Column("resume_sha256", sa.Text(), nullable=True),
        sa.Column("resume_size", sa.BigInteger(), nullable=True),
        sa.Column("resume_step", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("job_by_account", "job", ["account_id", "id"], unique=False)
    op.create_index(
        "job_open", "job", ["state"], unique=False, sqlite_where=sa.text("state IN ('queued', 'running', 'canceling')")
    )
    op.create_index("job_queue", "job", ["account_id", "state", "priority", "id"], unique=False)
    op.create_table(
        "metric_block",
        sa.Column("metric_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("block", sa.BigInteger(), nullable=False),
        sa.Column("step_first", sa.BigInteger(), nullable=False),
        sa.Column("step_last", sa.BigInteger(), nullable=False),
        sa.Column("low", sa.Float(), nullable=True),
        sa.Column("high", sa.Float(), nullable=True),
        sa.Column("points", sa.Integer(), nullable=False),
        sa.Column("nan", sa.Integer(), nullable=False),
        sa.Column("pos_inf", sa.Integer(), nullable=False),
        sa.Column("neg_inf", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("metric_id", "ordinal", "block"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "metric_point",
        sa.Column("metric_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("ts", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("metric_id", "ordinal", "step"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "past_key",
        sa.Column("thumbprint", sa.String(), nullable=False),
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=False),
        sa.Column("revocation", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("thumbprint"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=True),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("act", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_age", "audit", ["at"], unique=False)
    op.create_index("audit_by_account", "audit", ["account_id", "id"], unique=False)
    op.create_table(
        "rate_mark",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("marks", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name", "key"),
    )
    op.create_table(
        "upload",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=True),
        sa.Column("artifact_id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("offset", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("done", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_byte_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("upload_by_artifact", "upload", ["artifact_id"], unique=False)
    op.create_table(
        "api_token",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("token_hash"),
    )
    op.create_table(
        "attempt",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("worker_name", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), server_default="0", nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("offer_until", sa.Float(), nullable=False),
        sa.Column("lease_until", sa.Float(), nullable=True),
        sa.Column("decline_until", sa.Float(), nullable=True),
        sa.Column("decline_reason", sa.Text(), server_default="", nullable=False),
        sa.Column("next_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("start_step", sa.BigInteger(), nullable=True),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.Column("phase", sa.Text(), server_default="", nullable=False),
        sa.Column("label", sa.Text(), server_default="", nullable=False),
        sa.Column("flags", sa.Text(), server_default="[]", nullable=False),
        sa.Column("step", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("progress", sa.Float(), server_default="0", nullable=False),
        sa.Column("eta_s", sa.Float(), nullable=True),
        sa.Column("checkpoint_at", sa.Float(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("accepted_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("usage", sa.Text(), nullable=True),
        sa.Column("completion_sha256", sa.Text(), nullable=True),
        sa.Column("recorded", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["job.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("attempt_by_job", "attempt", ["job_id", "id"], unique=False)
    op.create_index("attempt_by_worker", "attempt", ["worker_id", "id"], unique=False)
    op.create_index(
        "attempt_open",
        "attempt",
        ["state"],
        unique=False,
        sqlite_where=sa.text("state IN ('offered', 'running', 'lost', 'canceling')"),
    )
    op.create_table(
        "login",
        sa.Column("cookie_hash", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("csrf", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("stepped_up_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("cookie_hash"),
    )
    op.create_table(
        "metric",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["job.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("metric_name", "metric", ["job_id", "name"], unique=True)
    op.create_table(
        "worker",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("thumbprint", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("approved_by", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("capabilities", sa.String(), server_default="{}", nullable=False),
        sa.Column("credential_store", sa.String(), server_default="", nullable=False),
        sa.Column("job_scopes", sa.String(), nullable=False),
        sa.Column("auth_length_s", sa.Float(), nullable=False),
        sa.Column("auth_expires_at", sa.Float(), nullable=False),
        sa.Column("extend_while_healthy", sa.Boolean(), nullable=False),
        sa.Column("hard_cap_s", sa.Float(), nullable=True),
        sa.Column("person_acted_at", sa.Float(), nullable=False),
        sa.Column("extended_at", sa.Float(), nullable=True),
        sa.Column("renewal_asked_at", sa.Float(), nullable=True),
        sa.Column("console_mode", sa.String(), server_default="run", nullable=False),
        sa.Column("mode_by", sa.String(), server_default="", nullable=False),
        sa.Column("mode_reason", sa.String(), server_default="", nullable=False),
        sa.Column("mode_at", sa.Float(), nullable=True),
        sa.Column("rev", sa.Integer(), server_default="1", nullable=False),
        sa.Column("conflict", sa.String(), nullable=True),
        sa.Column("rekey_at", sa.Float(), nullable=True),
        sa.Column("confirm_at", sa.Float(), nullable=True),
        sa.Column("knock", sa.String(), nullable=True),
        sa.Column("revoked_at", sa.Float(), nullable=True),
        sa.Column("revocation", sa.String(), nullable=True),
        sa.Column("removed_at", sa.Float(), nullable=True),
        sa.Column("session_id", sa.String(), nullable=True),
        sa.Column("contact_at", sa.Float(), nullable=True),
        sa.Column("contact", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["account.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("thumbprint"),
    )
    op.create_index("worker_by_account", "worker", ["account_id"], unique=False)
    op.create_index(
        "worker_name", "worker", ["account_id", "name"], unique=True, sqlite_where=sa.text("revoked_at IS NULL")
    )
    op.create_table(
        "pairing",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("ip", sa.String(), nullable=False),
        sa.Column("network", sa.String(), nullable=False),
        sa.Column("thumbprint", sa.String(), nullable=False),
        sa.Column("device_code_hash", sa.String(), nullable=False),
        sa.Column("user_code_hash", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("device_name", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("worker_version", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("lookups", sa.Integer(), server_default="0", nullable=False),
        sa.Column("interval_s", sa.Float(), nullable=False),
        sa.Column("polled_at", sa.Float(), nullable=True),
        sa.Column("decided_at", sa.Float(), nullable=True),
        sa.Column("worker_id", sa.String(), nullable=True),
        sa.Column("approved_by", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["worker_id"],
            ["worker.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("device_code_hash"),
    )
    op.create_index(
        "pairing_code", "pairing", ["user_code_hash"], unique=True, sqlite_where=sa.text("state = 'pending'")
    )
    op.create_index("pairing_key", "pairing", ["thumbprint"], unique=False)
    op.create_table(
        "session",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("instance_id", sa.String(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("session_seq", sa.Integer(), nullable=False),
        sa.Column("previous", sa.String(), server_default="[]", nullable=False),
        sa.Column("generation", sa.Integer(), server_default="1", nullable=False),
        sa.Column("ip", sa.String(), server_default="", nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("end_reason", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["worker_id"],
            ["worker.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("session_by_worker", "session", ["worker_id"], unique=False)
    op.create_table(
        "worker_token",
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"],
            ["session.id"],
        ),
        sa.ForeignKeyConstraint(
            ["worker_id"],
            ["worker.id"],
        ),
        sa.PrimaryKeyConstraint("token_hash"),
    )
    op.create_index("worker_token_by_session", "worker_token", ["session_id"], unique=False)
