"""Benchmarks: one episode from each seed, the same whoever plays beside it."""

import gymnasium
import numpy as np
import pytest

from worker_core.training.rl.benchmark import Episode, Player, summarise
from worker_core.training.rl.descent import NumpyDescent
from worker_core.training.rl.joint import Joint
from worker_core.training.rl.policy import Policy
from worker_core.training.rl.ppo import PpoLearner
from worker_core.training.rl.spaces import Observations, read_actions
from worker_core.wire.spec import Ppo


def player(name: str = "CartPole-v1") -> Player:
    def make() -> gymnasium.Env[object, object]:
        return gymnasium.make(name, disable_env_checker=True)

    probe = make()
    observations = Observations(probe.observation_space)
    policy = Policy(observations.size, read_actions(probe.action_space), (8,))
    policy.initialise(np.random.default_rng(1))
    joint = Joint(policy)
    learner = PpoLearner(policy, joint, NumpyDescent(policy, joint, Ppo()), Ppo())
    return Player(make, observations, policy.actions, learner.choose)


def test_an_episode_depends_on_its_seed_alone() -> None:
    together = player().play(range(40), greedy=True, tick=lambda _share: None)
    alone = player().play([33], greedy=True, tick=lambda _share: None)
    assert [episode.seed for episode in together.episodes] == list(range(40))
    assert together.episodes[33] == alone.episodes[0]


def test_shared_starts_give_equal_greedy_episodes() -> None:
    result = player().play([5] * 4, greedy=True, tick=lambda _share: None)
    assert len(set(result.episodes)) == 1
    assert result.aggregate.std == result.aggregate.ci95 == 0


def test_sampled_play_is_repeatable() -> None:
    one, other = (player().play(range(6), greedy=False, tick=lambda _share: None) for _ in range(2))
    assert one.episodes == other.episodes


def test_progress_is_told_up_to_the_end() -> None:
    shares: list[float] = []
    player().play(range(20), greedy=True, tick=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_the_aggregate_is_that_of_the_returns() -> None:
    returns = [1.0, 2.0, 6.0]
    episodes = [
        Episode(seed=i, total=total, length=3, terminated=True, truncated=False, success=i == 0)
        for i, total in enumerate(returns)
    ]
    aggregate = summarise(episodes)
    assert (aggregate.mean, aggregate.median, aggregate.min, aggregate.max) == (3.0, 2.0, 1.0, 6.0)
    assert aggregate.std == pytest.approx(np.std(returns))
    assert aggregate.ci95 == pytest.approx(1.96 * np.std(returns, ddof=1) / np.sqrt(3))
    assert aggregate.success_rate == pytest.approx(1 / 3)
