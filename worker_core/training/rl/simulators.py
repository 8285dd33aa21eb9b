"""Simulators side by side in this process: stepped together, and restored exactly in the middle of an episode.

A simulator cannot be saved, but it can be replayed: its random generator as it stood before the last reset, and the
actions since. What comes out is compared with the last observation; a simulator that does not replay starts a new
episode, and the resume says so.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.spaces import Actions, Floats, Observations

Simulator = gymnasium.Env[Any, Any]
Maker = Callable[[], Simulator]
Origin = dict[str, object]

RECENT_EPISODES = 100


class BadSimulatorValue(ValueError):
    """A simulator gave a number that is none, so nothing can be learned from it."""

    def __init__(self, who_gave_what: str) -> None:
        super().__init__(
            f"{who_gave_what} that is not a finite number; correct the simulator so that every value is finite"
        )


@dataclass(frozen=True)
class EpisodeEnd:
    """How a training episode went; ``success`` is None where the simulator does not say."""

    total: float
    length: int
    success: bool | None


@dataclass(frozen=True)
class CutOff:
    """An episode that was truncated: where in the rollout, and what it would have seen next."""

    step: int
    simulator: int
    observation: Floats


class Simulators:
    """Several simulators, each in its own episode; ``current`` holds what each of them shows now."""

    def __init__(self, make: Maker, count: int, observations: Observations, actions: Actions) -> None:
        self._read = observations.read
        self._actions = actions
        self._envs = [make() for _ in range(count)]
        self.count = count
        self.current = np.zeros((count, observations.size), np.float32)
        self.recent: deque[EpisodeEnd] = deque(maxlen=RECENT_EPISODES)
        self.cut_offs: list[CutOff] = []
        self._origins: list[Origin] = [{} for _ in range(count)]
        self._taken: list[list[Any]] = [[] for _ in range(count)]
        self._totals = [0.0] * count

    def start(self, seeds: Sequence[int]) -> None:
        """Begin the first episode of each simulator."""
        for index, seed in enumerate(seeds):
            self._reset(index, seed)

    def step(self, row: int, chosen: NDArray[Any], rewards: Floats, ends: Floats) -> None:
        """Step every simulator once; an ended episode starts again. ``row`` is the step's place in the rollout."""
        for index, action in enumerate(self._actions.for_step(chosen)):
            observation, reward, terminated, truncated, info = self._envs[index].step(action)
            self._taken[index].append(action)
            rewards[index] = reward = float(reward)
            self._totals[index] += reward
            if terminated or truncated:
                ends[index] = 1.0
                if not terminated:
                    self.cut_offs.append(CutOff(row, index, np.array(self._read(observation), np.float32)))
                self._note_end(index, info)
                self._reset(index, None)
            else:
                self.current[index] = self._read(observation)

    def take_cut_offs(self) -> list[CutOff]:
        """Return the truncated episodes since the last call."""
        cut_offs, self.cut_offs = self.cut_offs, []
        return cut_offs

    def close(self) -> None:
        """Free what the simulators hold."""
        for env in self._envs:
            env.close()

    def snapshot(self) -> tuple[list[dict[str, object]], dict[str, NDArray[Any]]]:
        """Return what :meth:`restore` needs: plain values for each simulator, and arrays by name."""
        states: list[dict[str, object]] = []
        arrays: dict[str, NDArray[Any]] = {"simulators.current": self.current.copy()}
        for index, env in enumerate(self._envs):
            states.append(
                {"origin": self._origins[index], "total": self._totals[index], "generator": generator_state(env)}
            )
            if self._taken[index]:
                arrays[f"simulator.{index}.actions"] = np.asarray(self._taken[index])
        return states, arrays

    def restore(
        self,
        states: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, NDArray[Any]],
        fresh_seeds: Sequence[int],
        tick: Callable[[], None] = lambda: None,
    ) -> list[int]:
        """Bring every simulator back to where it was; returns those that had to start a new episode.

        ``tick`` hears of each step that is replayed: it may take as long as the episodes took.
        """
        inexact: list[int] = []
        for index, state in enumerate(states):
            actions = arrays.get(f"simulator.{index}.actions")
            shown = arrays["simulators.current"][index]
            replayed = self._replay(index, state["origin"], [] if actions is None else list(actions), tick)
            same_generator = generator_state(self._envs[index]) == state["generator"]
            if replayed and same_generator and np.array_equal(self.current[index], shown, equal_nan=True):
                self._totals[index] = float(state["total"])
            else:
                inexact.append(index)
                self._reset(index, fresh_seeds[index])
        return inexact

    def _replay(self, index: int, origin: Origin, actions: list[Any], tick: Callable[[], None]) -> bool:
        env = self._envs[index]
        if "seed" in origin:
            self._reset(index, cast(int, origin["seed"]))
        elif not set_generator_state(env, origin.get("generator")):
            return False
        else:
            self._reset(index, None)
        for action in actions:
            observation, _, terminated, truncated, _ = env.step(action)
            self._taken[index].append(action)
            if terminated or truncated:
                return False
            self.current[index] = self._read(observation)
            tick()
        return True

    def _reset(self, index: int, seed: int | None) -> None:
        env = self._envs[index]
        # The generator's state before the reset is what replays it.
        self._origins[index] = {"generator": generator_state(env)} if seed is None else {"seed": seed}
        observation, _ = env.reset(seed=seed)
        self.current[index] = self._read(observation)
        self._taken[index] = []
        self._totals[index] = 0.0

    def _note_end(self, index: int, info: Mapping[str, Any]) -> None:
        success = info.get("is_success")
        told = None if success is None else bool(success)
        self.recent.append(EpisodeEnd(self._totals[index], len(self._taken[index]), told))


def generator_state(env: Simulator) -> dict[str, Any] | None:
    """Return the state of the simulator's own random generator, or None where it is not a plain one."""
    generator = getattr(env.unwrapped, "np_random", None)
    if not isinstance(generator, np.random.Generator) or not isinstance(generator.bit_generator, np.random.PCG64):
        return None
    return cast("dict[str, Any]", generator.bit_generator.state)


def set_generator_state(env: Simulator, state: object) -> bool:
    """Give the simulator's random generator this state; False where it has no plain one."""
    if not isinstance(state, dict) or generator_state(env) is None:
        return False
    env.unwrapped.np_random.bit_generator.state = cast("dict[str, Any]", state)
    return True
