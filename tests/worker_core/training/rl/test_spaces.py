"""Spaces: what a simulator shows and takes, as arrays."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from worker_core.training.rl.spaces import BoxActions, DiscreteActions, Observations, UnsupportedSpace, read_actions


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (spaces.Box(-1, 1, (3,), np.float64), 3),
        (spaces.Box(0, 255, (2, 3), np.uint8), 6),
        (spaces.Discrete(4), 4),
        (spaces.MultiBinary(5), 5),
        (spaces.MultiDiscrete([2, 3]), 5),
        (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-1, 1, (2,), np.float32)}), 4),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))), 5),
    ],
)
def test_every_space_becomes_a_flat_row(space: Any, size: int) -> None:
    observations = Observations(space)
    space.seed(1)
    row = np.zeros(size, np.float32)
    row[:] = observations.read(space.sample())
    assert observations.size == size
    assert observations.describe()["flat_size"] == size


def test_discrete_actions_begin_where_the_space_begins() -> None:
    actions = read_actions(spaces.Discrete(3, start=-1))
    chosen = actions.choose(np.array([[5, 0, 0], [0, 0, 5]], np.float32).T, None)
    assert actions.for_step(chosen) == [-1, 1]


def test_several_choices_are_made_apart() -> None:
    space = spaces.MultiDiscrete([2, 3])
    actions = read_actions(space)
    assert isinstance(actions, DiscreteActions)
    taken = actions.for_step(actions.choose(np.array([[0, 1, 0, 0, 1]], np.float32).T, None))[0]
    assert taken.tolist() == [1, 2]
    assert space.contains(taken)


def test_continuous_actions_stay_within_bounds_and_type() -> None:
    space = spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64)
    actions = read_actions(space)
    assert isinstance(actions, BoxActions)
    taken = actions.for_step(np.array([[-7, -7], [7, 7]], np.float32).T)
    assert [row.tolist() for row in taken] == [[-1, 0], [1, 7]]
    assert all(space.contains(row) for row in taken)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_an_action_at_a_bound_that_rounds_is_inside_the_space(kind: Any) -> None:
    space = spaces.Box(kind(-0.1), kind(0.7), (2,), kind)
    taken = read_actions(space).for_step(np.array([[-7], [7]], np.float32))[0]
    assert taken.dtype == kind
    assert space.contains(taken)


def test_sampling_follows_the_logits() -> None:
    actions = read_actions(spaces.Discrete(3))
    logits = np.log(np.array([0.2, 0.5, 0.3], np.float32))[:, None].repeat(20_000, axis=1)
    chosen = actions.choose(logits, actions.noise(np.random.default_rng(0), 1, 20_000)[0])
    assert np.allclose(np.bincount(chosen[0]) / 20_000, [0.2, 0.5, 0.3], atol=0.02)


def test_a_space_that_is_not_supported_says_what_is() -> None:
    with pytest.raises(UnsupportedSpace, match="must be Discrete"):
        read_actions(spaces.Dict({"a": spaces.Discrete(2)}))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 5]),
        spaces.Box(np.array([-3.0, 0.0, -np.inf]), np.array([-1.0, np.inf, np.inf]), dtype=np.float64),
    ],
)
def test_actions_of_chance_are_of_the_space_and_differ(space: Any) -> None:
    actions = read_actions(space)
    taken = actions.for_step(actions.random(np.random.default_rng(0), 50))
    assert all(space.contains(action) for action in taken)
    assert len({str(action) for action in taken}) > 2
