"""Several processes that train one policy: the same numbers as one process, and no hang when one of them is gone."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from worker_core.training.failures import FailedElsewhere
from worker_core.training.rl import snapshot
from worker_core.training.rl.crew import build
from worker_core.training.rl.team import Team, _Choice
from worker_core.wire.plan import Plan, resolve
from worker_core.wire.spec import parse_spec

STEPS = 24
FAULTY = """
import os
import gymnasium
import numpy as np

class Faulty(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, fault):
        self.fault, self.at = fault, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.at += 1
        if self.at == 30 and os.environ.get("FAULTY_PROCESS") != str(os.getpid()):
            if self.fault == "raise":
                raise ValueError("the valve is stuck")
            if self.fault == "exit":
                os._exit(3)
            return np.full(2, np.nan, np.float32), 0.0, False, False, {}
        return np.zeros(2, np.float32), 1.0, False, False, {}
"""


def plan_of(entry: str = "gymnasium:CartPole-v1", init: dict[str, Any] | None = None, **ppo: Any) -> Plan:
    skill = {"name": "main", "impl": "learned", "ppo": {"minibatch_size": 32, "n_epochs": 2, "hidden": [8], **ppo}}
    return resolve(
        parse_spec(
            {
                "kind": "rl-session",
                "name": "t",
                "seed": 3,
                "files": [] if entry.startswith("gymnasium:") else [entry.partition(":")[0] + ".py"],
                "system": {"simulator": {"entry": entry, "init": init or {}}, "skills": [skill]},
                "training": {"simulators": 5, "rollout_fragment_length": STEPS},
            }
        )
    )


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Callable[..., Team]]:
    made: list[Team] = []

    def make_team(plan: Plan, processes: int, shards: int = 2) -> Team:
        make, observations, learner = build(plan, tmp_path)
        learner.policy.initialise(snapshot.first_weights(plan.seed))
        learner.joint.read(learner.policy.flat)
        made.append(Team(plan, tmp_path, make, observations, learner, shards, processes))
        return made[-1]

    yield make_team
    for one in made:
        one.close()


def train(team: Team, updates: range) -> list[dict[str, float]]:
    return [team.update(number, STEPS, 1e-3, lambda _row: None) for number in updates]


def begin(team: Team, plan: Plan) -> Team:
    team.start(snapshot.simulator_seeds(plan.seed, plan.simulators))
    return team


SCALED = plan_of("gymnasium:Pendulum-v1", normalize_observation=True, normalize_reward=True)


@pytest.mark.parametrize("plan", [plan_of(), SCALED], ids=["plain", "scaled"])
def test_two_processes_learn_the_same_to_the_last_bit_as_one(plan: Plan, team: Callable[..., Team]) -> None:
    one, two = (begin(team(plan, processes), plan) for processes in (1, 2))
    # Whether minibatches are shared or one process learns for both must not matter either.
    choices = iter([False, True, True, False, False, True])
    two._choice.alone = lambda: next(choices)  # type: ignore[method-assign]
    alone, together = train(one, range(6)), train(two, range(6))
    assert np.array_equal(one.learner.policy.flat, two.learner.policy.flat)
    assert [str(stats) for stats in alone] == [str(stats) for stats in together]
    assert list(one.recent) == list(two.recent)


def test_processes_work_together_again_soon_after_the_machine_is_no_longer_busy() -> None:
    choice, alone = _Choice(), list[bool]()
    for update in range(400):
        # A busy machine makes meetings slow; one process alone hardly minds.
        together = 5.0 if 100 <= update < 200 else 1.0
        alone.append(choice.alone())
        choice.note(alone[-1], 1.7 if alone[-1] else together)
    quiet, busy, after = alone[2:99], alone[105:199], alone[300:]
    assert (sum(quiet), busy.count(False)) == (0, 0)
    assert sum(after) <= 2  # the trials


@pytest.mark.parametrize("resumed_by", [1, 2])
def test_a_team_goes_on_to_the_last_bit_from_what_was_saved_of_another(
    resumed_by: int, team: Callable[..., Team]
) -> None:
    plan = plan_of(normalize_reward=True)
    first = begin(team(plan, 2), plan)
    train(first, range(3))
    arrays, state = first.snapshot()
    learned = snapshot.take_learner(first.learner)
    arrays, learned_arrays = ({name: array.copy() for name, array in part.items()} for part in (arrays, learned[0]))
    train(first, range(3, 6))
    second = team(plan, resumed_by)
    snapshot.restore_learner(second.learner, learned_arrays, learned[1])
    assert second.restore(arrays, state, [0] * plan.simulators, lambda: None) == []
    train(second, range(3, 6))
    assert np.array_equal(first.learner.policy.flat, second.learner.policy.flat)
    assert [(end.total, end.length) for end in first.recent] == [(end.total, end.length) for end in second.recent]


@pytest.mark.parametrize(
    ("fault", "told"),
    [("raise", "the valve is stuck"), ("exit", "ended with code 3"), ("nan", "simulator [2-4] gave an observation")],
)
def test_a_process_that_is_lost_ends_training_and_says_why(
    fault: str, told: str, tmp_path: Path, team: Callable[..., Team], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"faulty_{fault}.py").write_text(FAULTY)
    monkeypatch.setenv("FAULTY_PROCESS", str(os.getpid()))
    plan = plan_of(f"faulty_{fault}:Faulty", {"fault": fault})
    ours = begin(team(plan, 2), plan)
    with pytest.raises(FailedElsewhere, match=told):
        train(ours, range(4))
