"""Plans: what a spec multiplies out to."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from worker_core.wire.codec import encode
from worker_core.wire.plan import Plan, plan_lines, resolve
from worker_core.wire.spec import parse_spec


def plan_of(**keys: object) -> Plan:
    system = {"simulator": {"entry": "gymnasium:CartPole-v1"}}
    return resolve(parse_spec({"kind": "rl-session", "name": "n", "system": system, **keys}))


def test_cycles_multiply_with_simulators_and_machine() -> None:
    plan = plan_of(training={"cycles": 5, "simulators": 3, "machine": "gpu"})
    assert (plan.total_cycles, plan.decisions) == (60, 60_000)
    assert any("5 cycles × 3 simulators × 4 (machine gpu) = 60 cycles" in line for line in plan_lines(plan))


def test_total_steps_caps_the_decisions_to_whole_steps_of_all_simulators() -> None:
    plan = plan_of(training={"cycles": 63, "simulators": 16, "total_steps": 1_000_005})
    assert plan.decisions == 1_000_000
    assert any("capped by total_steps 1,000,005 = 1,000,000" in line for line in plan_lines(plan))


def test_an_automatic_fragment_is_2048_decisions_over_all_simulators_and_at_least_64_each() -> None:
    assert plan_of(training={"simulators": 1}).fragment == 2048
    assert plan_of(training={"simulators": 16}).fragment == 128
    assert plan_of(training={"simulators": 64}).fragment == 64


def test_the_last_update_takes_what_is_left() -> None:
    plan = plan_of(training={"cycles": 1, "simulators": 2, "decisions_per_cycle": 100, "rollout_fragment_length": 64})
    assert (plan.updates, plan.decisions_per_update, plan.last_update_decisions) == (2, 128, 72)


def test_quick_mode_trains_two_cycles_and_says_that_it_compares_with_nothing() -> None:
    plan = plan_of(mode="quick")
    assert (plan.cycles, plan.comparable) == (2, False)


def test_benchmark_starts_are_shared_or_spread() -> None:
    assert set(plan_of(benchmark={"episodes_per_scenario": 4, "seed": 7}).benchmark.seeds) == {7}
    spread = plan_of(benchmark={"episodes_per_scenario": 4, "seed": 7, "non_deterministic": True})
    assert spread.benchmark.seeds == (7, 8, 9, 10)


def test_a_plan_is_plain_json_with_every_hyperparameter() -> None:
    told = json.loads(encode(plan_of(ppo={"gamma": 0.9})))
    assert told["skill"]["ppo"]["gamma"] == 0.9
    assert told["skill"]["ppo"]["learning_rate"] == 3e-4
    assert told["skill"]["reward"] == "simulator"
    assert msgspec.convert(told, Plan) == plan_of(ppo={"gamma": 0.9})


@given(
    cycles=st.integers(1, 10_000),
    simulators=st.integers(1, 64),
    machine=st.sampled_from(["small", "gpu"]),
    per_cycle=st.integers(1, 5_000),
    cap=st.none() | st.integers(64, 10**7),
    fragment=st.just("auto") | st.integers(8, 4_096),
)
def test_updates_add_up_to_the_planned_decisions(
    cycles: int, simulators: int, machine: str, per_cycle: int, cap: int | None, fragment: object
) -> None:
    training = {"cycles": cycles, "simulators": simulators, "machine": machine, "decisions_per_cycle": per_cycle}
    plan = plan_of(training={**training, "total_steps": cap, "rollout_fragment_length": fragment})
    assert (plan.updates - 1) * plan.decisions_per_update + plan.last_update_decisions == plan.decisions
    assert 0 < plan.last_update_decisions <= plan.decisions_per_update
    assert plan.decisions % simulators == 0
    assert plan.decisions <= cycles * simulators * {"small": 1, "gpu": 4}[machine] * per_cycle
    assert len(plan_lines(plan)) > 8
