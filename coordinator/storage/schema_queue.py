"""Tables of the queue: jobs, attempts, their events, metrics and artifacts, and the change feed.

All times are unix seconds by the coordinator's clock. Leases, offers and delays are renewed when the coordinator
starts, so that its own absence ends none of them.
"""

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, LargeBinary, Table, Text, text

from coordinator.storage.schema import metadata

job = Table(
    "job",
    metadata,
    Column("id", Text, primary_key=True),
    Column("account_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("spec_sha256", Text, nullable=False),
    Column("inputs", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("limits", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("max_offline_s", Float, nullable=False),
    Column("state", Text, nullable=False),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("ordinal", Integer, nullable=False, server_default="0"),
    Column("failures", Integer, nullable=False, server_default="0"),
    # The attempt that holds the current epoch, and the one that is offered now.
    Column("current_attempt", Text),
    Column("offered_attempt", Text),
    Column("not_before", Float, nullable=False, server_default="0"),
    # Set while the job waits for a lost worker because another loss would exceed its attempts.
    Column("lost_until", Float),
    Column("cancel_at", Float),
    Column("cancel_by", Text, nullable=False, server_default=""),
    Column("reason", Text, nullable=False, server_default=""),
    Column("resume_attempt", Text),
    Column("resume_sha256", Text),
    Column("resume_size", BigInteger),
    Column("resume_step", BigInteger),
    Column("created_by", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Index("job_by_account", "account_id", "id"),
    Index("job_queue", "account_id", "state", "priority", "id"),
    Index("job_open", "state", sqlite_where=text("state IN ('queued', 'running', 'canceling')")),
)

attempt = Table(
    "attempt",
    metadata,
    Column("id", Text, primary_key=True),
    Column("job_id", Text, ForeignKey("job.id"), nullable=False),
    Column("account_id", Text, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("worker_name", Text, nullable=False),
    Column("ordinal", Integer, nullable=False, server_default="0"),
    Column("epoch", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("offer_until", Float, nullable=False),
    Column("lease_until", Float),
    # After a decline: not offered to this worker again before this time.
    Column("decline_until", Float),
    Column("decline_reason", Text, nullable=False, server_default=""),
    Column("next_seq", BigInteger, nullable=False, server_default="0"),
    # Where the attempt began (its resume point), and the first step it reported.
    Column("start_step", BigInteger),
    Column("first_step", BigInteger),
    # What the worker does with it (AttemptPhase), and what the job itself says it does.
    Column("phase", Text, nullable=False, server_default=""),
    Column("label", Text, nullable=False, server_default=""),
    # What went wrong in its training, newest last (JSON of :class:`worker_core.wire.status.FlagShown`, at most 50).
    Column("flags", Text, nullable=False, server_default="[]"),
    Column("step", BigInteger, nullable=False, server_default="0"),
    Column("progress", Float, nullable=False, server_default="0"),
    Column("eta_s", Float),
    Column("checkpoint_at", Float),
    Column("created_at", Float, nullable=False),
    Column("accepted_at", Float),
    Column("ended_at", Float),
    Column("failure", Text),
    Column("error", Text),
    Column("traceback", Text),
    Column("exit_code", Integer),
    Column("usage", Text),
    Column("completion_sha256", Text),
    Column("recorded", Text),
    Index("attempt_by_job", "job_id", "id"),
    Index("attempt_by_worker", "worker_id", "id"),
    Index("attempt_open", "state", sqlite_where=text("state IN ('offered', 'running', 'lost', 'canceling')")),
)

event = Table(
    "event",
    metadata,
    Column("attempt_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("t", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("event_logs", "attempt_id", "seq", sqlite_where=text("t NOT IN ('m', 's')")),
    sqlite_with_rowid=False,
)

metric = Table(
    "metric",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job_id", Text, ForeignKey("job.id"), nullable=False),
    Column("name", Text, nullable=False),
    Index("metric_name", "job_id", "name", unique=True),
)

# One value per (job, attempt, metric, step): the last write wins. NaN is stored as NULL, infinities as themselves.
metric_point = Table(
    "metric_point",
    metadata,
    Column("metric_id", Integer, primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("step", BigInteger, primary_key=True),
    Column("value", Float),
    Column("ts", Float, nullable=False),
    sqlite_with_rowid=False,
)

# The same points summed up over blocks of steps (coordinator/storage/metrics.py), so that long series draw fast.
metric_block = Table(
    "metric_block",
    metadata,
    Column("metric_id", Integer, primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("block", BigInteger, primary_key=True),
    Column("step_first", BigInteger, nullable=False),
    Column("step_last", BigInteger, nullable=False),
    Column("low", Float),
    Column("high", Float),
    Column("points", Integer, nullable=False),
    Column("nan", Integer, nullable=False),
    Column("pos_inf", Integer, nullable=False),
    Column("neg_inf", Integer, nullable=False),
    sqlite_with_rowid=False,
)

# Bytes an account holds, by content. The file is shared between accounts; knowing that it exists is not.
blob = Table(
    "blob",
    metadata,
    Column("account_id", Text, primary_key=True),
    Column("sha256", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("used_at", Float, nullable=False),
)

artifact = Table(
    "artifact",
    metadata,
    Column("id", Text, primary_key=True),
    Column("account_id", Text, nullable=False),
    Column("job_id", Text),
    Column("attempt_id", Text),
    Column("ordinal", Integer, nullable=False, server_default="0"),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("step", BigInteger),
    Column("state", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("artifact_by_job", "job_id", "id"),
    Index("artifact_by_attempt", "attempt_id", "sha256"),
    Index("artifact_by_content", "account_id", "sha256"),
)

upload = Table(
    "upload",
    metadata,
    Column("id", Text, primary_key=True),
    Column("account_id", Text, nullable=False),
    # Whose upload it is: a worker, or a person of the account.
    Column("worker_id", Text),
    Column("artifact_id", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("offset", BigInteger, nullable=False, server_default="0"),
    Column("done", Integer, nullable=False, server_default="0"),
    Column("last_byte_at", Float, nullable=False),
    Index("upload_by_artifact", "artifact_id"),
)

change = Table(
    "change",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("account_id", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("subject_id", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("at", Float, nullable=False),
    Index("change_by_account", "account_id", "seq"),
    sqlite_autoincrement=True,
)
