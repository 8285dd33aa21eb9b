"""What people do with jobs and see of them; console and HTTP endpoints call the same functions."""

import hashlib

import msgspec
from sqlalchemy import Connection, func, insert, select, true

from coordinator.accounts.presence import Presence
from coordinator.queue.eligibility import needs_of
from coordinator.queue.endings import Endings
from coordinator.queue.ledger import Ledger
from coordinator.queue.records import Records
from coordinator.queue.rows import as_job, attempts_of, find_attempt, require_job
from coordinator.queue.views import Viewer, artifact_view
from coordinator.storage import artifacts as artifact_rows
from coordinator.storage.artifacts import NewArtifact
from coordinator.storage.database import Database
from coordinator.storage.events import events_of_attempt
from coordinator.storage.idempotency import Answer, idempotent
from coordinator.storage.schema_queue import job as job_table
from worker_core.wire.client import ArtifactView, JobCreated, JobSubmit, JobView, RetryStart, StoredEvent
from worker_core.wire.codec import decode, encode
from worker_core.wire.ids import new_id
from worker_core.wire.problems import FieldError, problem
from worker_core.wire.signed import Input
from worker_core.wire.spec import BadSpec, JobSpec, attempt_limits, load_spec
from worker_core.wire.vocabulary import JobState

MAX_PAGE = 200
STATES: tuple[JobState, ...] = ("queued", "running", "canceling", "succeeded", "failed", "canceled")


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs, newest first; ``next`` continues the list."""

    items: list[JobView]
    next: str | None


class JobService(Records):
    """Jobs of all accounts."""

    def __init__(self, db: Database, ledger: Ledger, endings: Endings, presence: Presence) -> None:
        super().__init__(db)
        self._ledger = ledger
        self._endings = endings
        self._presence = presence

    async def submit(
        self, account_id: str, request: JobSubmit, *, by: str, idempotency_key: str | None = None
    ) -> JobCreated:
        """Queue a job. Raises ``bad-spec`` with every field at fault."""
        spec = read_spec(request.spec)
        body = encode(request)
        now = self._ledger.clock.now()

        def write(conn: Connection) -> Answer:
            return idempotent(conn, account_id, idempotency_key, body, now, lambda: create(conn))

        def create(conn: Connection) -> Answer:
            self._check_inputs(conn, account_id, spec, request.inputs)
            row = _row(account_id, request, spec, by, now)
            conn.execute(insert(job_table).values(row))
            self._keep_inputs(conn, account_id, row["id"], request.inputs)
            self._ledger.changed(conn, str(row["id"]))
            self._ledger.requeued(conn, account_id)
            return 201, encode(JobCreated(job_id=str(row["id"])))

        _, answer = await self._db.write(write)
        return decode(answer, JobCreated)

    async def list(
        self,
        account_id: str,
        *,
        state: str | None = None,
        kind: str | None = None,
        begun: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> JobPage:
        """Return jobs of an account, newest first; ``begun`` leaves out those that no worker ever took."""
        j = job_table.c
        if state is not None and state not in STATES:
            raise problem("invalid-request", f"state is one of {', '.join(STATES)}, not {state!r}")
        query = select(job_table).where(j.account_id == account_id)
        for column, wanted in ((j.state, state), (j.kind, kind)):
            query = query if wanted is None else query.where(column == wanted)
        query = query.where(j.ordinal > 0) if begun else query
        query = query if cursor is None else query.where(j.id < cursor)
        size = max(1, min(limit, MAX_PAGE))

        def read(conn: Connection) -> JobPage:
            viewer = self._viewer(conn, account_id)
            found = [as_job(row) for row in conn.execute(query.order_by(j.id.desc()).limit(size + 1)).mappings()]
            following = found[size - 1].id if len(found) > size else None
            return JobPage([viewer.job(job) for job in found[:size]], following)

        return await self._db.read(read)

    async def counts(self, account_id: str, *, begun: bool = False) -> dict[str, int]:
        """Return how many jobs there are in each state; ``begun`` leaves out those that no worker ever took."""
        query = (
            select(job_table.c.state, func.count().label("jobs"))
            .where(job_table.c.account_id == account_id, job_table.c.ordinal > 0 if begun else true())
            .group_by(job_table.c.state)
        )
        found = await self._db.read(lambda conn: {row.state: row.jobs for row in conn.execute(query)})
        return {state: found.get(state, 0) for state in STATES}

    async def show(self, account_id: str, job_id: str) -> JobView:
        """Return one job with its attempts and its spec."""
        return await self._db.read(lambda conn: self._shown(conn, account_id, job_id))

    async def cancel(self, account_id: str, job_id: str, *, by: str) -> JobView:
        """Cancel a job: at once when it only waits, else as soon as its worker confirms."""

        def write(conn: Connection) -> JobView:
            self._endings.cancel(conn, require_job(conn, account_id, job_id), by)
            return self._shown(conn, account_id, job_id)

        return await self._db.write(write)

    async def retry(
        self,
        account_id: str,
        job_id: str,
        *,
        by: str,
        start: RetryStart = "checkpoint",
        idempotency_key: str | None = None,
    ) -> JobView:
        """Queue an ended job again; the same key again answers the same, even when the job has ended anew."""
        body = encode(("retry", job_id, start))
        now = self._ledger.clock.now()

        def write(conn: Connection) -> Answer:
            return idempotent(conn, account_id, idempotency_key, body, now, lambda: again(conn))

        def again(conn: Connection) -> Answer:
            self._endings.retry(conn, require_job(conn, account_id, job_id), start, by)
            return 200, encode(self._shown(conn, account_id, job_id))

        _, answer = await self._db.write(write)
        return decode(answer, JobView)

    async def artifacts(self, account_id: str, job_id: str) -> "list[ArtifactView]":
        """Return what a job was given and has produced, newest first."""

        def read(conn: Connection) -> "list[ArtifactView]":
            require_job(conn, account_id, job_id)
            return [artifact_view(artifact) for artifact in artifact_rows.artifacts_of_job(conn, job_id)]

        return await self._db.read(read)

    async def events(
        self, account_id: str, attempt_id: str, after_seq: int = -1, limit: int = 500
    ) -> "list[StoredEvent]":
        """Return the events of an attempt above ``after_seq``."""

        def read(conn: Connection) -> "list[StoredEvent]":
            attempt = find_attempt(conn, attempt_id)
            if attempt is None or attempt.account_id != account_id:
                raise problem("not-found", f"no attempt {attempt_id}")
            found = events_of_attempt(conn, attempt_id, after_seq, max(1, min(limit, 1000)))
            return [StoredEvent(seq=seq, event=msgspec.json.decode(body)) for seq, body in found]

        return await self._db.read(read)

    def _shown(self, conn: Connection, account_id: str, job_id: str) -> JobView:
        job = require_job(conn, account_id, job_id)
        return self._viewer(conn, account_id).job(job, attempts_of(conn, job_id), with_spec=True)

    def _viewer(self, conn: Connection, account_id: str) -> Viewer:
        return Viewer(conn, self._presence, account_id, self._ledger.clock.now())

    def _check_inputs(self, conn: Connection, account_id: str, spec: JobSpec, inputs: tuple[Input, ...]) -> None:
        names = [file.name for file in inputs]
        if len(set(names)) != len(names):
            raise problem("invalid-request", "two inputs have the same name")
        if spec.files and "code" not in names:
            raise _bad_spec("files", "names files, but no input named code brings them")
        for file in inputs:
            if not artifact_rows.holds_blob(conn, account_id, file.sha256, file.size):
                raise problem("invalid-request", f"input {file.name!r} was not uploaded; send it to /v1/blobs first")

    def _keep_inputs(self, conn: Connection, account_id: str, job_id: object, inputs: tuple[Input, ...]) -> None:
        now = self._ledger.clock.now()
        for file in inputs:
            new = NewArtifact(
                account_id=account_id,
                name=file.name,
                kind="input",
                sha256=file.sha256,
                size=file.size,
                job_id=str(job_id),
            )
            artifact_rows.add_artifact(conn, new, "ready", now)


def read_spec(text: str) -> JobSpec:
    """Read a spec as it travels; raises ``bad-spec`` with every field at fault."""
    try:
        return load_spec(text)
    except BadSpec as error:
        raise problem("bad-spec", str(error), errors=error.errors) from error


def _bad_spec(field: str, message: str) -> Exception:
    return problem("bad-spec", f"{field}: {message}", errors=(FieldError(field=field, message=message),))


def _row(account_id: str, request: JobSubmit, spec: JobSpec, by: str, now: float) -> dict[str, object]:
    return {
        "id": new_id("job"),
        "account_id": account_id,
        "kind": spec.kind,
        "name": spec.name,
        "spec": request.spec,
        "spec_sha256": hashlib.sha256(request.spec.encode()).hexdigest(),
        "inputs": encode(request.inputs).decode(),
        "target": encode(needs_of(spec)).decode(),
        "limits": encode(attempt_limits(spec)).decode(),
        "priority": spec.priority,
        "max_attempts": spec.retry.max_attempts,
        "max_offline_s": spec.max_offline_minutes * 60.0,
        "state": "queued",
        "created_by": by,
        "created_at": now,
    }
