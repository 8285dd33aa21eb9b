"""Simulators side by side in this process: stepped together, and restored exactly in the middle of an episode.

A simulator cannot be saved, but it can be replayed: its random generator as it stood before the last reset, and the
actions since. What comes out is compared with the last observation; a simulator that does not replay starts a new
episode, and the resume says so.
"""

import contextlib
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from worker_core.training.rl.spaces import Actions, Floats, Observations
from worker_core.wire.spec import Restart

Simulator = gymnasium.Env[Any, Any]
Maker = Callable[[], Simulator]
Origin = dict[str, object]

RECENT_EPISODES = 100


_NEVER = Restart(lifetime=0)
_MINUTE_S = 60.0
_RESTART = 4
"""What a seed is for, beside others of :mod:`worker_core.training.rl.ppo`."""


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
    row: int = 0
    """The step of its rollout with which it ended."""
    simulator: int = 0


@dataclass(frozen=True)
class CutOff:
    """An episode that was truncated: where in the rollout, and what it would have seen next."""

    step: int
    simulator: int
    observation: Floats


class Simulators:
    """Several simulators, each in its own episode; ``current`` holds what each of them shows now, one a column."""

    def __init__(
        self,
        make: Maker,
        count: int,
        observations: Observations,
        actions: Actions,
        first: int = 0,
        restart: Restart = _NEVER,
        seed: int = 0,
    ) -> None:
        self._read = observations.read
        self._actions = actions
        self._make = make
        self._restart, self._seed = restart, seed
        self._envs = [make() for _ in range(count)]
        bare = [_without_limit(env) for env in self._envs]
        self._steps = [env.step for env, _ in bare]
        self._limits = [limit for _, limit in bare]
        self.count = count
        self.first = first
        """Number of the first one, where others have the rest."""
        self.end = first + count
        self.current: Floats = np.zeros((observations.size, count), np.float32)
        self.ended: list[EpisodeEnd] = []
        """Episodes that ended since :meth:`take_ended`."""
        self.cut_offs: list[CutOff] = []
        self._origins: list[Origin] = [{} for _ in range(count)]
        self._taken: list[list[Any]] = [[] for _ in range(count)]
        self._totals = [0.0] * count
        self.restarts = [0] * count
        """How often each was made anew."""
        self._restarted_at: list[deque[float]] = [deque(maxlen=max(1, restart.per_minute)) for _ in range(count)]

    def start(self, seeds: Sequence[int]) -> None:
        """Begin the first episode of each simulator."""
        for index, seed in enumerate(seeds):
            self._reset(index, seed)

    def step(self, row: int, chosen: NDArray[Any], rewards: Floats, ends: Floats) -> None:
        """Step every simulator once; an ended episode starts again. ``row`` is the step's place in the rollout."""
        current, read, totals, earned = self.current, self._read, self._totals, list[float]()
        moves = zip(self._steps, self._taken, self._limits, self._actions.for_step(chosen), strict=True)
        for index, (step, taken, limit, action) in enumerate(moves):
            try:
                # A copy, because some simulators change in place what they were given, and it is kept for replaying.
                observation, reward, terminated, truncated, info = step(action.copy())
                taken.append(action)
                reward = float(reward)
                earned.append(reward)
                totals[index] += reward
                if terminated or truncated or (limit is not None and len(taken) >= limit):
                    ends[index] = 1.0
                    if not terminated:
                        self.cut_offs.append(CutOff(row, index, np.array(read(observation), np.float32)))
                    self._note_end(row, index, info)
                    self._reset(index, None)
                else:
                    current[:, index] = read(observation)
            except Exception as error:
                self._make_anew(index, error)
                # Where only the next episode failed to begin, what the last step brought stays.
                if not ends[index]:
                    # The episode is cut off where it stood; what the failed step would have brought is not known.
                    earned[index:] = [0.0]
                    ends[index] = 1.0
                    self.cut_offs.append(CutOff(row, index, current[:, index].copy()))
                self._reset(index, self._seed_of(index))
        rewards[:] = earned

    def take_cut_offs(self) -> list[CutOff]:
        """Return the truncated episodes since the last call."""
        cut_offs, self.cut_offs = self.cut_offs, []
        return cut_offs

    def take_ended(self) -> list[EpisodeEnd]:
        """Return the episodes that ended since the last call."""
        ended, self.ended = self.ended, []
        return ended

    def close(self) -> None:
        """Free what the simulators hold."""
        for env in self._envs:
            env.close()

    def snapshot(self) -> tuple[list[dict[str, object]], dict[str, NDArray[Any]]]:
        """Return what :meth:`restore` needs: plain values for each simulator, and arrays by name."""
        states: list[dict[str, object]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for index, env in enumerate(self._envs):
            states.append(
                {
                    "origin": self._origins[index],
                    "total": self._totals[index],
                    "generator": generator_state(env),
                    "restarts": self.restarts[index],
                }
            )
            arrays[f"simulator.{self.first + index}.current"] = self.current[:, index].copy()
            if self._taken[index]:
                arrays[f"simulator.{self.first + index}.actions"] = np.asarray(self._taken[index])
        return states, arrays

    def restore(
        self,
        states: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, NDArray[Any]],
        fresh_seeds: Sequence[int],
        tick: Callable[[], None] = lambda: None,
    ) -> list[int]:
        """Bring every simulator back to where it was; returns the numbers of those that had to start a new episode.

        ``tick`` hears of each step that is replayed: it may take as long as the episodes took.
        """
        inexact: list[int] = []
        for index, state in enumerate(states):
            actions = arrays.get(f"simulator.{self.first + index}.actions")
            shown = arrays[f"simulator.{self.first + index}.current"]
            replayed = self._replay(index, state["origin"], [] if actions is None else list(actions), tick)
            self.restarts[index] = int(state["restarts"])
            same_generator = generator_state(self._envs[index]) == state["generator"]
            if replayed and same_generator and np.array_equal(self.current[:, index], shown, equal_nan=True):
                self._totals[index] = float(state["total"])
            else:
                inexact.append(self.first + index)
                self._reset(index, fresh_seeds[index])
        return inexact

    def _replay(self, index: int, origin: Origin, actions: list[Any], tick: Callable[[], None]) -> bool:
        env, step, limit = self._envs[index], self._steps[index], self._limits[index]
        if "seed" in origin:
            self._reset(index, cast(int, origin["seed"]))
        elif not set_generator_state(env, origin.get("generator")):
            return False
        else:
            self._reset(index, None)
        for action in actions:
            observation, _, terminated, truncated, _ = step(action.copy())
            self._taken[index].append(action)
            if terminated or truncated or (limit is not None and len(self._taken[index]) >= limit):
                return False
            self.current[:, index] = self._read(observation)
            tick()
        return True

    def _make_anew(self, index: int, error: Exception) -> None:
        """Replace a simulator that raised ``error``, or raise that where it has done so too often."""
        rule, number, now = self._restart, self.first + index, time.monotonic()
        recent = self._restarted_at[index]
        too_soon = len(recent) == recent.maxlen and now - recent[0] < _MINUTE_S
        if self.restarts[index] >= rule.lifetime or rule.per_minute == 0 or too_soon:
            if self.restarts[index]:
                error.add_note(f"simulator {number} had been made anew {self.restarts[index]} times before")
            raise error
        recent.append(now)
        self.restarts[index] += 1
        print("".join(traceback.format_exception(error)), file=sys.stderr)  # noqa: T201
        told = f"simulator {number} failed and is made anew ({self.restarts[index]} of {rule.lifetime} times)"
        print(told, file=sys.stderr, flush=True)  # noqa: T201
        with contextlib.suppress(Exception):  # it is broken: whether it closes tells nothing new
            self._envs[index].close()
        self._envs[index] = self._make()
        bare, self._limits[index] = _without_limit(self._envs[index])
        self._steps[index] = bare.step

    def _seed_of(self, index: int) -> int:
        """Return the seed that a simulator begins with after it was made anew."""
        purpose = (_RESTART, self.first + index, self.restarts[index])
        return int(np.random.SeedSequence(self._seed, spawn_key=purpose).generate_state(1)[0])

    def _reset(self, index: int, seed: int | None) -> None:
        env = self._envs[index]
        # The generator's state before the reset is what replays it.
        self._origins[index] = {"generator": generator_state(env)} if seed is None else {"seed": seed}
        observation, _ = env.reset(seed=seed)
        self.current[:, index] = self._read(observation)
        self._taken[index].clear()
        self._totals[index] = 0.0

    def _note_end(self, row: int, index: int, info: Mapping[str, Any]) -> None:
        success = info.get("is_success")
        told = None if success is None else bool(success)
        self.ended.append(EpisodeEnd(self._totals[index], len(self._taken[index]), told, row, self.first + index))


def _without_limit(env: Simulator) -> tuple[Simulator, int | None]:
    """Return what steps without Gymnasium's own time limit around it, and that limit, which is counted here.

    Only the wrappers that Gymnasium itself puts around every simulator are taken off; others belong to its author.
    ``reset`` goes through all of them.
    """
    if not isinstance(env, TimeLimit):
        return env, None
    limit = env._max_episode_steps  # pyright: ignore[reportPrivateUsage]
    inner: Simulator = env.env
    while isinstance(inner, OrderEnforcing | PassiveEnvChecker):
        inner = cast("gymnasium.Wrapper[Any, Any, Any, Any]", inner).env
    return inner, limit


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
