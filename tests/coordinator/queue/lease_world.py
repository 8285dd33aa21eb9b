"""Workers, their network and a coordinator that goes away, around the real queue on a real database.

A worker here follows the rules of the real one (worker_core/core): what it accepted is in its journal before it runs,
what ended is delivered until it is answered, a lost answer is asked for again. Every request may be lost, answered in
vain, sent twice, or arrive long after the worker has given it up.
"""

import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, TypeVar, get_args

from sqlalchemy import select, update

from coordinator.accounts.keys import CoordinatorKeys
from coordinator.accounts.presence import Presence
from coordinator.queue.attempts import Attempts
from coordinator.queue.connecting import Connecting
from coordinator.queue.leases import Leases
from coordinator.queue.matching import offerable
from coordinator.queue.regrant import Regrants
from coordinator.storage.schema import worker as worker_table
from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import job as job_table
from tests.coordinator.queue.desk import ACCOUNT, Desk
from worker_core.wire.problems import ProblemError
from worker_core.wire.session import HeldAttempt
from worker_core.wire.vocabulary import JOB_END_STATES, LIVE_ATTEMPT_STATES
from worker_core.wire.work import Completion, Heartbeat, LeaseReport, Release

T = TypeVar("T")
Fate = Literal["arrives", "lost", "answer-lost", "twice", "late"]
FATES: tuple[Fate, ...] = get_args(Fate)
ACCEPT_TRIES = 4
MAX_OFFLINE_S = 3600.0
TTL_S = 300.0
GONE = ("lease-superseded", "already-completed", "not-found", "job-canceled")
"""Refusals after which a worker drops what it holds of an attempt."""
numbers = count(1)


class Inline:
    """The database as the queue's services ask for it; every answer is there at once."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def write(self, run: Callable[[Any], T]) -> T:
        return self._desk.write(run)

    async def read(self, run: Callable[[Any], T]) -> T:
        return self._desk.read(run)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


@dataclass
class HeldHere:
    """An attempt in a worker's journal."""

    job_id: str
    epoch: int
    lease_at: float
    phase: Literal["running", "done", "stopped", "crashed", "canceled"] = "running"


@dataclass
class SimWorker:
    """One workstation."""

    id: str
    session: str | None = None
    up: bool = True
    cut: bool = False
    """Whether its network is away."""
    beats: int = 0
    offer: tuple[str, str, int] | None = None
    tries: int = 0
    journal: dict[str, HeldHere] = field(default_factory=dict[str, HeldHere])

    @property
    def worker_id(self) -> str:
        return self.id

    @property
    def session_id(self) -> str:
        return self.session or ""

    def running(self) -> str | None:
        """The attempt in the slot."""
        return next((key for key, held in self.journal.items() if held.phase == "running"), None)


class World:
    """Two workers, two jobs, one coordinator."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        db: Any = Inline(desk)
        keys: Any = CoordinatorKeys.__new__(CoordinatorKeys)
        keys.announce_next = lambda *_: None
        keys.opened_offer = lambda _: None
        leases = Leases(db, desk.ledger, Presence(db, desk.clock, 45.0), 1, keys)
        self.leases = leases
        self.attempts = Attempts(db, desk.ledger, desk.endings)
        self.connecting = Connecting(desk.ledger, desk.endings, leases, Regrants(desk.ledger, keys, 1))
        self._checked = -1
        self.serves = True
        self.late: list[Callable[[], object]] = []
        self.jobs = [desk.submit(max_offline_s=MAX_OFFLINE_S), desk.submit(max_attempts=1, max_offline_s=MAX_OFFLINE_S)]
        self.workers = [self.enroll(), self.enroll()]
        self.results: dict[str, set[str]] = {job_id: set() for job_id in self.jobs}
        """Job to the attempts whose success was recorded."""
        self.starts: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        """What happened how often, so that a test can tell that the model reaches what it is about."""

    def enroll(self) -> SimWorker:
        made = SimWorker(f"worker-{next(numbers)}")
        self.desk.enroll(made.id)
        return made

    # The network

    def send(self, worker: SimWorker, fate: Fate, request: Callable[[], T]) -> T | None:
        """Send a request; its answer, or None where none arrives. Refusals are raised."""
        if not self.serves or worker.cut or fate == "lost":
            return None
        if fate == "late":
            self.late.append(request)
            return None
        if fate == "twice":
            self._unanswered(request)
        if fate == "answer-lost":
            self._unanswered(request)
            return None
        return request()

    def deliver_late(self, which: int) -> None:
        """A request arrives that its worker has long given up."""
        if self.late and self.serves:
            self.met["late"] += 1
            self._unanswered(self.late.pop(which % len(self.late)))

    def _unanswered(self, request: Callable[[], object]) -> None:
        try:
            request()
        except ProblemError as refusal:
            self.met[refusal.code] += 1

    def _ask(self, worker: SimWorker, fate: Fate, request: Callable[[], T]) -> T | ProblemError | None:
        try:
            return self.send(worker, fate, request)
        except ProblemError as refusal:
            self.met[refusal.code] += 1
            if refusal.code in ("session-replaced", "session-ended", "worker-revoked"):
                worker.session = None
            return refusal

    # What a worker does

    def connect(self, worker: SimWorker, fate: Fate) -> None:
        """S1."""
        if not worker.up:
            return
        held = [
            HeldAttempt(attempt_id=key, epoch=it.epoch, phase="running", next_seq=0)
            for key, it in worker.journal.items()
        ]
        session = f"ses-{next(numbers)}"

        def act(conn: Any) -> Any:
            conn.execute(update(worker_table).where(worker_table.c.id == worker.id).values(session_id=session))
            return self.connecting.verdicts(conn, worker.id, held)

        asked_at = self.desk.clock.at
        verdicts = self._ask(worker, fate, lambda: self.desk.write(act))
        if verdicts is None or isinstance(verdicts, ProblemError):
            return
        worker.session = session
        for verdict in verdicts:
            if verdict.verdict == "stop":
                worker.journal.pop(verdict.attempt_id, None)
            elif verdict.attempt_id in worker.journal and verdict.verdict == "continue":
                worker.journal[verdict.attempt_id].lease_at = asked_at

    def poll(self, worker: SimWorker, fate: Fate) -> None:
        """W1 with a free slot."""
        if not (worker.up and worker.session) or worker.running() or worker.offer:
            return
        answer = self._ask(worker, fate, lambda: self._offered(worker))
        if isinstance(answer, tuple) and answer[0] not in worker.journal:
            worker.offer, worker.tries = answer, 0

    def _offered(self, worker: SimWorker) -> tuple[str, str, int] | None:
        """Answer a poll: the open offer of this worker, or a new one."""

        def act(conn: Any) -> tuple[str, str, int] | None:
            a, now = attempt_table.c, self.desk.clock.at
            open_one = select(a.id, a.job_id, a.epoch).where(a.worker_id == worker.id, a.state == "offered")
            if (found := conn.execute(open_one).first()) is None:
                # Not by id: those of one millisecond are in no order, and a seed must give the same schedule again.
                query = select(job_table.c.id).where(*offerable(ACCOUNT, now)).order_by(job_table.c.max_attempts.desc())
                waiting = conn.execute(query).scalars().first()
                job = self.desk.find(conn, waiting) if waiting else None
                if job is not None:
                    self.desk.ledger.offer(conn, job, worker.id, worker.id)
                found = conn.execute(open_one).first()
            return tuple(found) if found is not None else None

        return self.desk.write(act)

    def accept(self, worker: SimWorker, fate: Fate) -> None:
        """W2, and the journal before anything runs."""
        if worker.offer is None or not (worker.up and worker.session):
            return
        attempt_id, job_id, epoch = worker.offer
        asked_at, caller = self.desk.clock.at, SimWorker(worker.id, worker.session)
        answer = self._ask(worker, fate, lambda: at_once(self.attempts.accept(caller, attempt_id, epoch)))
        if isinstance(answer, ProblemError):
            worker.offer = None
        elif answer is not None:
            worker.offer = None
            worker.journal[attempt_id] = HeldHere(job_id, epoch, asked_at)
            self.starts[job_id] += 1
        else:
            worker.tries += 1
            if worker.tries >= ACCEPT_TRIES:
                worker.offer = worker.session = None  # the coordinator may believe that it is held: connect again

    def beat(self, worker: SimWorker, fate: Fate) -> None:
        """W4 with everything that is held."""
        if not (worker.up and worker.session):
            return
        worker.beats += 1
        reports = tuple(
            LeaseReport(attempt_id=key, epoch=held.epoch, phase="running") for key, held in worker.journal.items()
        )
        message, session, asked_at = Heartbeat(n=worker.beats, leases=reports), worker.session, self.desk.clock.at

        def request() -> Any:
            answer = at_once(self.leases.heartbeat(worker.id, session, message))
            at_once(self.leases.flush())
            return answer

        answer = self._ask(worker, fate, request)
        if answer is None or isinstance(answer, ProblemError):
            return
        for lease in answer.leases:
            held = worker.journal.get(lease.attempt_id)
            self.met[f"verdict {lease.verdict}"] += 1
            if held is None:
                continue
            if lease.verdict in ("superseded", "unknown"):
                del worker.journal[lease.attempt_id]
                continue
            held.lease_at = max(held.lease_at, asked_at)
            if lease.verdict == "cancel" and held.phase != "done":
                held.phase = "canceled"

    def exit(self, worker: SimWorker) -> None:
        """The job of the slot comes to its end."""
        if worker.up and (running := worker.running()) is not None:
            worker.journal[running].phase = "done"

    def deliver(self, worker: SimWorker, fate: Fate) -> None:
        """W11 or W12 for what has ended."""
        ended = next((item for item in worker.journal.items() if item[1].phase != "running"), None)
        if ended is None or not (worker.up and worker.session):
            return
        attempt_id, held = ended
        caller = SimWorker(worker.id, worker.session)
        answer = self._ask(worker, fate, lambda: self._report(caller, attempt_id, held))
        if isinstance(answer, ProblemError):
            if answer.code in GONE:
                worker.journal.pop(attempt_id, None)
        elif answer:
            worker.journal.pop(attempt_id, None)

    def _report(self, caller: SimWorker, attempt_id: str, held: HeldHere) -> bool:
        if held.phase in ("done", "canceled"):
            outcome = "succeeded" if held.phase == "done" else "canceled"
            body = Completion(epoch=held.epoch, outcome=outcome, final_seq=0)
            recorded = at_once(self.attempts.complete(caller, attempt_id, body))
            if recorded.recorded == "succeeded":
                self.results[held.job_id].add(attempt_id)
            return True
        reason = "crash" if held.phase == "crashed" else "offline"
        at_once(self.attempts.release(caller, attempt_id, Release(epoch=held.epoch, reason=reason)))
        return True

    def crash(self, worker: SimWorker) -> None:
        """Its core is killed: what ran is found crashed at the next start."""
        worker.up, worker.session, worker.offer = False, None, None
        for held in worker.journal.values():
            if held.phase == "running":
                held.phase = "crashed"

    def work(self, worker: SimWorker, fate: Fate) -> None:
        """Do what the worker would do next."""
        if worker.session is None:
            self.connect(worker, fate)
        elif worker.offer is not None:
            self.accept(worker, fate)
        elif any(held.phase != "running" for held in worker.journal.values()):
            self.deliver(worker, fate)
        elif worker.running() is None:
            self.poll(worker, fate)
        else:
            self.beat(worker, fate)

    # What people and time do

    def cancel(self, job_id: str) -> None:
        self._unanswered(
            lambda: self.desk.write(lambda conn: self.desk.endings.cancel(conn, self.desk.job(job_id), "a"))
        )

    def revoke(self, index: int) -> None:
        """The worker is revoked and pairs again, as another; what it holds is gone."""
        old = self.workers[index].id

        def act(conn: Any) -> None:
            row = {"revoked_at": self.desk.clock.at, "revocation": "signed"}
            conn.execute(update(worker_table).where(worker_table.c.id == old).values(**row))
            self.desk.endings.fence_worker(conn, old)

        if self.serves:
            self.desk.write(act)
            self.workers[index] = self.enroll()

    def wait(self, seconds: float) -> None:
        """Time passes, for the workers too: a job without contact for too long is stopped."""
        self.desk.clock.at += seconds
        if self.serves:
            self.desk.write(self.desk.reaper.apply)
        for worker in self.workers:
            running = worker.running()
            if running is None:
                continue
            held = worker.journal[running]
            if self.desk.clock.at - held.lease_at > max(TTL_S, MAX_OFFLINE_S):
                self.met["offline too long"] += 1
                held.phase = "stopped"

    def outage(self, lasts: bool) -> None:
        """The coordinator goes away, or comes back."""
        if lasts:
            self.serves = False
        elif not self.serves:
            self.serves = True
            self.desk.write(self.desk.ledger.grace)

    # What must hold

    def check(self) -> None:
        """One owner for each job, one result, and no job that waits for nobody."""
        if self._checked == self.desk.writes:
            return
        self._checked = self.desk.writes
        for job_id, job, attempts in self.desk.look(self.jobs):
            live = [attempt for attempt in attempts if attempt.state in LIVE_ATTEMPT_STATES]
            offered = [attempt.id for attempt in attempts if attempt.state == "offered"]
            assert len(live) <= 1, f"two owners: {live}"
            assert offered == ([job.offered_attempt] if job.offered_attempt else [])
            if job.state in ("running", "canceling"):
                assert [(a.state, a.epoch, a.id) for a in live] == [(job.state, job.epoch, job.current_attempt)]
            else:
                assert not live, f"a {job.state} job with a live attempt"
            assert job.state != "queued" or job.failures < job.max_attempts or job.lost_until is not None
            assert (job.ended_at is not None) == (job.state in JOB_END_STATES)
            assert len(self.results[job_id]) <= 1, f"double result: {self.results[job_id]}"
            assert not self.results[job_id] or job.state == "succeeded", f"a result of a {job.state} job"

    def heal(self, rounds: int = 60) -> None:
        """Everything works again: every job must come to an end."""
        self.outage(lasts=False)
        for worker in self.workers:
            worker.up, worker.cut = True, False
        while self.late:
            self.deliver_late(0)
        for _ in range(rounds):
            if all(self.desk.job(job_id).state in JOB_END_STATES for job_id in self.jobs):
                break
            for worker in self.workers:
                if worker.session is None:
                    self.connect(worker, "arrives")
                self.beat(worker, "arrives")
                self.exit(worker)
                self.deliver(worker, "arrives")
                self.poll(worker, "arrives")
                self.accept(worker, "arrives")
            self.wait(20.0)
            self.check()
        stuck = [job for job_id in self.jobs if (job := self.desk.job(job_id)).state not in JOB_END_STATES]
        assert not stuck, f"stuck: {[(job.state, job.reason) for job in stuck]}"
        self.check()


WEIGHTS = {
    "work": 20.0,
    "beat": 4.0,
    "exit": 4.0,
    "crash": 0.8,
    "start": 3.0,
    "cut": 2.5,
    "outage": 0.8,
    "cancel": 0.6,
    "revoke": 0.2,
    "wait": 6.0,
    "late": 3.0,
}
"""How often each kind of step comes: mostly workers at work, sometimes what goes wrong."""


def random_step(world: World, dice: random.Random) -> None:
    """Take one step at random."""
    worker, fate = dice.choice(world.workers), dice.choices(FATES, (6, 1, 1, 1, 1))[0]
    match dice.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))[0]:
        case "exit":
            world.exit(worker)
        case "crash":
            world.crash(worker)
        case "start":
            worker.up = True
        case "cut":
            worker.cut = not worker.cut
        case "outage":
            world.outage(world.serves)
        case "cancel":
            world.cancel(dice.choice(world.jobs))
        case "revoke":
            world.revoke(dice.randrange(2))
        case "wait":
            world.wait(dice.choice((1.0, 15.0, 31.0, 130.0, 320.0, 320.0, 4000.0)))
        case "late":
            world.deliver_late(dice.randrange(1000))
        case "beat":
            world.beat(worker, fate)
        case _:
            world.work(worker, fate)


def run_schedule(desk: Desk, seed: int, steps: int = 80) -> World:
    """Run one random schedule, heal, and return what came of it; AssertionError tells what was violated."""
    dice, world = random.Random(seed), World(desk)
    for _ in range(steps):
        random_step(world, dice)
        world.check()
    world.heal()
    return world
