"""The queue's own parts on a real database, with a clock that the test moves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert

from coordinator.queue.endings import Endings
from coordinator.queue.feed import ChangeFeed
from coordinator.queue.ledger import Ledger
from coordinator.queue.reaper import Reaper
from coordinator.queue.rows import Attempt, Held, Job, attempts_of, find_attempt, find_job
from coordinator.settings import Settings
from coordinator.storage import database
from coordinator.storage.artifacts import NewArtifact, add_artifact
from coordinator.storage.database import Database
from coordinator.storage.schema import account as account_table
from coordinator.storage.schema import worker as worker_table
from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import job as job_table
from worker_core.wire.codec import encode
from worker_core.wire.ids import new_id
from worker_core.wire.spec import attempt_limits, load_spec

SPEC = '{"kind":"rl-session","name":"lander","system":{"simulator":{"entry":"gymnasium:CartPole-v1"}}}'
ACCOUNT = "acc_1"


class HandClock:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.at = 1_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class Quiet:
    """Nobody waits."""

    def job_queued(self, account_id: str) -> None:
        del account_id

    def wake_worker(self, worker_id: str) -> None:
        del worker_id


class Desk:
    """Ledger and endings on one database, with short ways to use them."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.db = Database.open(folder / "queue.db")
        self._engine = database._engine(folder / "queue.db", begin="BEGIN IMMEDIATE", size=1, query_only=False)
        self._line = self._engine.connect()
        self.writes = 0
        """Transactions so far that may have changed something."""
        self.clock = HandClock()
        self.settings = Settings(**settings)
        account = {"id": ACCOUNT, "email": "ada@example.org", "password_hash": "-", "created_at": 0.0}
        self.write(lambda conn: conn.execute(insert(account_table).values(account)))
        feed = ChangeFeed(self.db, self.clock, 1, 1000)
        self.ledger = Ledger(self.settings, self.clock, feed, Quiet())
        self.endings = Endings(self.ledger)
        self.reaper = Reaper(self.db, self.ledger, self.endings, None, None, None)  # pyright: ignore[reportArgumentType]

    def close(self) -> None:
        self._line.close()
        self._engine.dispose()
        self.db.close()

    def write(self, act: Callable[[Any], Any]) -> Any:
        """Run a transaction of the real database, without the way through its writer's thread."""
        self.writes += 1
        return self._run(act)

    def _run(self, act: Callable[[Any], Any]) -> Any:
        with self._line.begin():
            callbacks: list[Callable[[], None]] = []
            self._line.info[database._CALLBACKS] = callbacks
            result = act(self._line)
        for callback in callbacks:
            callback()
        return result

    def read(self, act: Callable[[Any], Any]) -> Any:
        """Look at the database, inside a transaction that is open already too."""
        return act(self._line) if self._line.in_transaction() else self._run(act)

    def submit(self, max_attempts: int = 3, max_offline_s: float = 3600.0) -> str:
        spec = load_spec(SPEC)
        job_id = new_id("job")
        row = {
            "id": job_id,
            "account_id": ACCOUNT,
            "kind": spec.kind,
            "name": spec.name,
            "spec": SPEC,
            "spec_sha256": "0" * 64,
            "inputs": "[]",
            "target": encode(spec.target).decode(),
            "limits": encode(attempt_limits(spec)).decode(),
            "priority": 0,
            "max_attempts": max_attempts,
            "max_offline_s": max_offline_s,
            "state": "queued",
            "created_by": "ada",
            "created_at": self.clock.at,
        }
        self.write(lambda conn: conn.execute(insert(job_table).values(row)))
        return job_id

    def job(self, job_id: str) -> Job:
        found = self.read(lambda conn: find_job(conn, job_id))
        assert found is not None
        return found

    def drop_jobs(self) -> None:
        """Begin anew with an empty queue."""
        self.write(lambda conn: [conn.execute(delete(table)) for table in (attempt_table, job_table)])

    @staticmethod
    def find(conn: Any, job_id: str) -> Job | None:
        return find_job(conn, job_id)

    def attempts(self, job_id: str) -> list[Attempt]:
        return self.read(lambda conn: attempts_of(conn, job_id))

    def look(self, job_ids: list[str]) -> list[tuple[str, Job, list[Attempt]]]:
        """Return jobs with their attempts, all of one moment."""
        return self.read(lambda conn: [(key, find_job(conn, key), attempts_of(conn, key)) for key in job_ids])  # pyright: ignore[reportReturnType]

    def attempt(self, attempt_id: str) -> Attempt:
        found = self.read(lambda conn: find_attempt(conn, attempt_id))
        assert found is not None
        return found

    def offer(self, job_id: str, worker_id: str) -> str | None:
        def act(conn: Any) -> str | None:
            job = find_job(conn, job_id)
            return self.ledger.offer(conn, job, worker_id, worker_id) if job is not None else None

        return self.write(act)

    def accept(self, attempt_id: str, worker_id: str) -> Held:
        return self.write(lambda conn: self.ledger.accept(conn, self.ledger.reread(conn, attempt_id, worker_id)))

    def start(self, job_id: str, worker_id: str) -> Held:
        """Offer and accept."""
        attempt_id = self.offer(job_id, worker_id)
        assert attempt_id is not None
        return self.accept(attempt_id, worker_id)

    def checkpoint(self, held: Held, step: int) -> None:
        """A checkpoint of the attempt has arrived whole."""
        new = NewArtifact(
            account_id=ACCOUNT,
            name=f"step-{step}",
            kind="checkpoint",
            sha256=f"{step:064x}",
            size=1,
            step=step,
            job_id=held.job.id,
            attempt_id=held.attempt.id,
            ordinal=held.attempt.ordinal,
        )
        self.write(lambda conn: add_artifact(conn, new, "ready", self.clock.at))

    def enroll(self, worker_id: str, authorized_s: float = 30 * 86400.0) -> None:
        """Make a worker's row."""
        row = {
            "id": worker_id,
            "account_id": ACCOUNT,
            "name": worker_id,
            "thumbprint": worker_id,
            "created_at": self.clock.at,
            "approved_by": "ada",
            "host": "{}",
            "version": "1.0",
            "job_scopes": '["any"]',
            "auth_length_s": authorized_s,
            "auth_expires_at": self.clock.at + authorized_s,
            "extend_while_healthy": False,
            "person_acted_at": self.clock.at,
        }
        self.write(lambda conn: conn.execute(insert(worker_table).values(row)))

    def fence(self, attempt: Attempt) -> Held:
        return self.write(lambda conn: self.ledger.fence(conn, attempt.id, attempt.worker_id, attempt.epoch))

    def pass_time(self, seconds: float) -> None:
        """Let time pass and the reaper look."""
        self.clock.at += seconds
        self.write(self.reaper.apply)
