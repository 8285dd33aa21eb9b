"""Whatever happens in whatever order: one owner for each job, one result, and no job that waits for nobody."""

from itertools import count
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from worker_core.wire.codec import convert
from worker_core.wire.problems import ProblemError
from worker_core.wire.vocabulary import JOB_END_STATES, LIVE_ATTEMPT_STATES
from worker_core.wire.work import Completion

numbers = count(1)
pick = st.integers(0, 1000)
REFUSALS = {"lease-superseded", "offer-expired", "wrong-state", "not-found"}


class Ownership(RuleBasedStateMachine):
    """Two workers and two jobs; every step may be late, repeated, or out of order."""

    desk: ClassVar[Any] = None

    @initialize()
    def open(self):
        self.jobs = [self.desk.submit(), self.desk.submit(max_attempts=1)]
        self.workers = [self.new_worker(), self.new_worker()]
        self.known = []
        self.results = dict.fromkeys(self.jobs, 0)

    def new_worker(self):
        return f"worker-{next(numbers)}"

    def refused(self, act):
        """Run a step that a rule may refuse; any other error is a failure."""
        try:
            return act()
        except ProblemError as refusal:
            if refusal.code not in REFUSALS:
                raise
            return None

    @rule(job=pick, worker=pick)
    def offer(self, job, worker):
        worker_id = self.workers[worker % 2]
        attempt_id = self.desk.offer(self.jobs[job % 2], worker_id)
        if attempt_id is not None:
            self.known.append((attempt_id, worker_id))

    @precondition(lambda self: self.known)
    @rule(which=pick)
    def accept(self, which):
        attempt_id, worker_id = self.known[-1 - which % min(3, len(self.known))]
        self.refused(lambda: self.desk.accept(attempt_id, worker_id))

    def old_or_new(self, which):
        attempt_id, worker_id = self.known[which % len(self.known)]
        return self.desk.attempt(attempt_id), worker_id

    @precondition(lambda self: self.known)
    @rule(which=pick)
    def heartbeat(self, which):
        attempt, worker_id = self.old_or_new(which)
        if worker_id not in self.workers:
            return

        def act(conn):
            held = self.desk.ledger.fence(conn, attempt.id, worker_id, attempt.epoch)
            self.desk.ledger.renew(conn, held.attempt.id, attempt.epoch, self.desk.clock.at + 300)

        self.refused(lambda: self.desk.write(act))

    @precondition(lambda self: self.known)
    @rule(which=pick, outcome=st.sampled_from(["succeeded", "exception", "signal", "canceled"]))
    def complete(self, which, outcome):
        attempt, worker_id = self.old_or_new(which)
        if worker_id not in self.workers or attempt.completion_sha256:
            return
        error = {"failure": outcome, "message": "x"} if outcome in ("exception", "signal") else None
        report = {"epoch": attempt.epoch, "outcome": "failed" if error else outcome, "final_seq": 0, "error": error}
        body = convert(report, Completion)

        def act(conn):
            held = self.desk.ledger.fence(conn, attempt.id, worker_id, attempt.epoch)
            return self.desk.endings.complete(conn, held, body, "digest"), held.job.id

        recorded = self.refused(lambda: self.desk.write(act))
        if recorded is not None and recorded[0] == "succeeded":
            self.results[recorded[1]] += 1

    @precondition(lambda self: self.known)
    @rule(which=pick, reason=st.sampled_from(["stopped", "crash"]))
    def release(self, which, reason):
        attempt, worker_id = self.old_or_new(which)
        if worker_id not in self.workers:
            return

        def act(conn):
            held = self.desk.ledger.fence(conn, attempt.id, worker_id, attempt.epoch)
            self.desk.endings.release(conn, held, reason)

        self.refused(lambda: self.desk.write(act))

    @rule(job=pick)
    def cancel(self, job):
        job_id = self.jobs[job % 2]
        self.refused(lambda: self.desk.write(lambda c: self.desk.endings.cancel(c, self.desk.job(job_id), "ada")))

    @rule(job=pick, start=st.sampled_from(["checkpoint", "scratch"]))
    def retry(self, job, start):
        job_id = self.jobs[job % 2]

        def act(conn):
            self.desk.endings.retry(conn, self.desk.job(job_id), start, "ada")
            return True

        if self.refused(lambda: self.desk.write(act)):
            self.results[job_id] = 0

    @rule(worker=pick)
    def revoke(self, worker):
        revoked = self.workers[worker % 2]
        self.desk.write(lambda conn: self.desk.endings.fence_worker(conn, revoked))
        self.workers[worker % 2] = self.new_worker()

    @rule(seconds=st.sampled_from([1.0, 31.0, 130.0, 320.0, 4000.0]))
    def wait(self, seconds):
        self.desk.pass_time(seconds)

    @rule()
    def restart(self):
        self.desk.write(self.desk.ledger.grace)

    @invariant()
    def one_owner(self):
        for job_id, job, attempts in self.desk.look(self.jobs):
            live = [attempt for attempt in attempts if attempt.state in LIVE_ATTEMPT_STATES]
            offered = [attempt.id for attempt in attempts if attempt.state == "offered"]
            assert len(live) <= 1
            assert offered == ([job.offered_attempt] if job.offered_attempt else [])
            if job.state in ("running", "canceling"):
                assert [(a.state, a.epoch, a.id) for a in live] == [(job.state, job.epoch, job.current_attempt)]
            else:
                assert not live
            assert job.state != "queued" or job.failures < job.max_attempts or job.lost_until is not None
            assert self.results[job_id] <= 1
            assert (job.ended_at is not None) == (job.state in JOB_END_STATES)

    def teardown(self):
        if not hasattr(self, "jobs"):
            return
        # Everyone is gone for two days: what is left is ended, or free for whoever comes next.
        for _ in range(2):
            self.desk.pass_time(86400.0)
        for job_id in self.jobs:
            job = self.desk.job(job_id)
            assert job.state in ("queued", *JOB_END_STATES)
            if job.state == "queued":
                assert (job.offered_attempt, job.lost_until) == (None, None)
                assert job.not_before <= self.desk.clock.at


def test_every_order_of_events_leaves_one_owner_and_one_result(desk):
    Ownership.desk = desk
    limits = settings(
        max_examples=30, stateful_step_count=35, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(Ownership, settings=limits)
