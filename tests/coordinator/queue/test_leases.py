"""The rules of leases under partitions, crashes, outages, cancels and revocations: no result twice, no job stuck.

The workers, their network and what goes wrong are in lease_world.py; the queue and its database are the real ones.
"""

from collections import Counter
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from coordinator.queue.ledger import Ledger
from coordinator.queue.rows import Held
from tests.coordinator.queue.desk import Desk
from tests.coordinator.queue.lease_world import FATES, World, run_schedule

which = st.integers(0, 1)
fates = st.sampled_from(["arrives", "arrives", "arrives", *FATES])


class Leases(RuleBasedStateMachine):
    """Any order of what workers, people and faults do."""

    desk: ClassVar[Any] = None

    @initialize()
    def begin(self):
        self.world = World(self.desk)

    @rule(index=which, fate=fates)
    def work(self, index, fate):
        self.world.work(self.world.workers[index], fate)

    @rule(index=which, fate=fates)
    def work_more(self, index, fate):
        self.world.work(self.world.workers[index], fate)

    @rule(index=which, fate=fates)
    def beat(self, index, fate):
        self.world.beat(self.world.workers[index], fate)

    @rule(index=which)
    def exit(self, index):
        self.world.exit(self.world.workers[index])

    @rule(index=which, up=st.booleans())
    def crash_or_start(self, index, up):
        if up:
            self.world.workers[index].up = True
        else:
            self.world.crash(self.world.workers[index])

    @rule(index=which, cut=st.booleans())
    def cut(self, index, cut):
        self.world.workers[index].cut = cut

    @rule(lasts=st.booleans())
    def outage(self, lasts):
        self.world.outage(lasts)

    @rule(index=which)
    def cancel(self, index):
        self.world.cancel(self.world.jobs[index])

    @rule(index=which)
    def revoke(self, index):
        self.world.revoke(index)

    @rule(number=st.integers(0, 50))
    def late(self, number):
        self.world.deliver_late(number)

    @rule(seconds=st.sampled_from([1.0, 31.0, 130.0, 320.0, 4000.0]))
    def wait(self, seconds):
        self.world.wait(seconds)

    @invariant()
    def holds(self):
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self):
        if hasattr(self, "world"):
            self.world.heal()


def test_in_every_order_each_job_has_one_owner_one_result_and_an_end(desk: Desk) -> None:
    Leases.desk = desk
    limits = settings(
        max_examples=12, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(Leases, settings=limits)


def test_random_schedules_reach_what_they_are_about_and_violate_nothing(desk: Desk) -> None:
    met: Counter[str] = Counter()
    for seed in range(15):
        met += run_schedule(desk, seed).met
    for event in ("late", "verdict revived", "lease-superseded", "offer-expired", "offline too long"):
        assert met[event], f"no schedule met {event}: {met}"


def test_without_the_fence_the_same_schedules_give_a_result_twice(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def unfenced(self: Ledger, conn: Any, attempt_id: str, worker_id: str, epoch: int) -> Held:
        del epoch
        return self.reread(conn, attempt_id, worker_id)

    monkeypatch.setattr(Ledger, "fence", unfenced)
    for seed in range(70, 270):
        try:
            run_schedule(desk, seed)
        except AssertionError as violated:
            if "double result" in str(violated):
                return
            desk.drop_jobs()
    raise AssertionError("no schedule shows what the fence is for")
