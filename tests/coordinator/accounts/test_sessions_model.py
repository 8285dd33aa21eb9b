"""Connections under any order of starts, restarts, reboots, goodbyes, silence and revocation."""

import asyncio
import secrets
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import insert, select

from coordinator.accounts.ground import Ground
from coordinator.accounts.keys import CoordinatorKeys
from coordinator.accounts.people import Person, insert_account
from coordinator.accounts.presence import Presence
from coordinator.accounts.sessions import Sessions
from coordinator.accounts.workers import Workers
from coordinator.settings import Settings
from coordinator.storage.database import Database
from coordinator.storage.schema import worker
from tests.coordinator.hand_clock import HandClock
from worker_core.wire.codec import encode
from worker_core.wire.ids import new_id
from worker_core.wire.pairing import Host
from worker_core.wire.problems import ProblemError
from worker_core.wire.session import SessionRequest

THUMBPRINT = "thumbprint"


class NoWork:
    """A queue without jobs that remembers whom it fenced."""

    def __init__(self) -> None:
        self.fenced: list[str] = []

    def fence_worker(self, conn, worker_id) -> None:
        self.fenced.append(worker_id)

    def recent_failures(self, conn, worker_id, limit):
        return ()

    def current_job(self, conn, worker_id):
        return None

    def sees_job_through(self, conn, worker_id) -> bool:
        return False

    def held_verdicts(self, conn, worker_id, held):
        return ()

    def record_change(self, conn, account_id, subject, subject_id) -> None:
        return None

    def forget_beats(self, worker_id) -> None:
        return None

    def wake_worker(self, worker_id) -> None:
        return None


class Machine:
    """One machine (or its clone): instance ids it used, its boot, the token it holds."""

    def __init__(self) -> None:
        self.boot_id = secrets.token_hex(4)
        self.instance_id = new_id("ins")
        self.earlier: list[str] = []
        self.token: str | None = None
        self.session_id: str | None = None

    def restart(self) -> None:
        self.earlier = [*self.earlier, self.instance_id][-32:]
        self.instance_id = new_id("ins")
        self.token = self.session_id = None


class Connections(RuleBasedStateMachine):
    """Two machines share one key, as after copying a disk."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        data = Path(self.folder.name)
        self.runner = asyncio.Runner()
        self.clock = HandClock()
        self.db = Database.open(data / "test.db")
        self.work = NoWork()
        presence = Presence(self.db, self.clock, 45.0)
        ground = Ground(
            db=self.db,
            clock=self.clock,
            settings=Settings(),
            keys=CoordinatorKeys.load(data),
            generation=1,
            work=self.work,
        )
        self.sessions = Sessions(ground, presence)
        self.workers = Workers(ground, presence, data)
        self.worker_id = new_id("wrk")
        self.person = self.db.write_sync(self._first_rows)
        self.machines = [Machine(), Machine()]
        self.revoked = False

    def _first_rows(self, conn) -> Person:
        account = insert_account(conn, "ada@example.org", "hash", 0.0)
        conn.execute(
            insert(worker).values(
                id=self.worker_id,
                account_id=account.id,
                name="twin",
                thumbprint=THUMBPRINT,
                created_at=0.0,
                approved_by="ada@example.org",
                host=encode(Host(os="L", arch="x", hostname="h")).decode(),
                version="0.1.0",
                job_scopes="[]",
                auth_length_s=1e9,
                auth_expires_at=1e9,
                extend_while_healthy=False,
                person_acted_at=0.0,
            )
        )
        return Person(account.id, account.email, frozenset(), "token")

    def _do(self, act):
        return self.runner.run(act)

    def _try(self, act) -> str:
        try:
            self._do(act)
        except ProblemError as refusal:
            return refusal.code
        return "ok"

    async def _connect(self, machine: Machine) -> None:
        row = await self.sessions.worker_of_key(THUMBPRINT)
        request = SessionRequest(
            worker_id=self.worker_id,
            instance_id=machine.instance_id,
            prev_instance_ids=tuple(machine.earlier),
            session_seq=1,
            boot_id=machine.boot_id,
            version="0.1.0",
        )
        started = await self.sessions.connect(row, request)
        machine.token, machine.session_id = started.token, started.session_id

    def _present(self) -> str | None:
        query = select(worker.c.session_id).where(worker.c.id == self.worker_id)
        return self.db.read_sync(lambda conn: conn.execute(query).scalar_one())

    @rule(which=st.integers(0, 1))
    def connect(self, which: int) -> None:
        machine = self.machines[which]
        before = self._present()
        outcome = self._try(self._connect(machine))
        if self.revoked:
            assert outcome == "worker-revoked"
        elif outcome == "ok":
            assert self._present() == machine.session_id
        else:
            assert outcome in ("session-active", "session-replaced", "credential-conflict")
            assert self._present() == before

    @rule(which=st.integers(0, 1))
    def restart(self, which: int) -> None:
        self.machines[which].restart()

    @rule(which=st.integers(0, 1))
    def reboot(self, which: int) -> None:
        self.machines[which].restart()
        self.machines[which].boot_id = secrets.token_hex(4)

    @rule(seconds=st.sampled_from([1, 20, 46, 120]))
    def wait(self, seconds: int) -> None:
        self.clock.time += seconds

    @precondition(lambda self: any(machine.token for machine in self.machines))
    @rule(which=st.integers(0, 1))
    def say_goodbye(self, which: int) -> None:
        machine = self.machines[which]
        if machine.token is None:
            return

        async def leave() -> None:
            await self.sessions.goodbye(await self.sessions.caller(THUMBPRINT, machine.token or ""), "bye")

        if self._try(leave()) == "ok":
            assert self._present() is None

    @rule()
    def revoke(self) -> None:
        self._do(self.workers.revoke(self.person, self.worker_id))
        self.revoked = True
        assert self.work.fenced == [self.worker_id]

    @invariant()
    def one_connection_speaks_at_most(self) -> None:
        present = self._present()
        for machine in self.machines:
            if machine.token is None:
                continue
            outcome = self._try(self.sessions.caller(THUMBPRINT, machine.token))
            if self.revoked:
                assert outcome == "worker-revoked"
            elif machine.session_id == present:
                assert outcome in ("ok", "token-expired")
            else:
                assert outcome in ("session-replaced", "session-ended", "token-expired")

    def teardown(self) -> None:
        self.runner.close()
        self.db.close()
        self.folder.cleanup()


TestConnections = Connections.TestCase
TestConnections.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
