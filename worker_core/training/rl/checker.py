"""Looks at a simulator before training starts and says what is wrong with it, and how to correct it.

An error raised inside the simulator is not caught: it is the author's, and its traceback says more than we could.
"""

import inspect
import numbers
from dataclasses import dataclass, field
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from worker_core.training.rl.simulators import Maker, Simulator
from worker_core.training.rl.spaces import Observations, UnsupportedSpace, read_actions

_STEPS = 50
_SEED = 7


class UnfitSimulator(ValueError):
    """A simulator that cannot be trained on; the text lists what to correct."""

    def __init__(self, name: str, faults: list[str]) -> None:
        lines = "\n".join(f"- {fault}" for fault in faults)
        super().__init__(f"the simulator {name} cannot be trained on:\n{lines}")


@dataclass
class _Findings:
    faults: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])


def check_simulator(name: str, make: Maker) -> list[str]:
    """Try a simulator out; returns warnings, raises :class:`UnfitSimulator`."""
    limited, found = make(), _Findings()
    # A time limit around the simulator would trip over a wrong answer before it can be explained.
    env = limited.env if isinstance(limited, TimeLimit) else limited
    try:
        _check_spaces(env, found)
        if not found.faults:
            _check_signatures(env, found)
        if not found.faults:
            _check_reset(env, found)
        if not found.faults:
            _check_steps(env, found)
    finally:
        limited.close()
    if found.faults:
        raise UnfitSimulator(name, found.faults)
    return found.warnings


def _check_spaces(env: Simulator, found: _Findings) -> None:
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gymnasium.Space):
            found.faults.append(f"self.{name} is not set; set it to a gymnasium.spaces space in __init__")
    if found.faults:
        return
    for read in (lambda: Observations(env.observation_space), lambda: read_actions(env.action_space)):
        try:
            read()
        except UnsupportedSpace as error:
            found.faults.append(str(error))


def _check_signatures(env: Simulator, found: _Findings) -> None:
    parameters = inspect.signature(env.unwrapped.reset).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    found.faults.extend(
        f"reset() does not take {name}; declare it as: def reset(self, *, seed=None, options=None)"
        for name in ("seed", "options")
        if name not in parameters and not takes_any
    )


def _check_reset(env: Simulator, found: _Findings) -> None:
    answer = cast(object, env.reset(seed=_SEED))
    parts = _parts(answer)
    if len(parts) != 2:
        found.faults.append(f"reset() returned {_kind(answer)}; it must return (observation, info)")
        return
    first, info = parts
    if not isinstance(info, dict):
        found.faults.append(f"reset() returned {_kind(info)} as info; it must be a dict")
    _check_observation(env, first, "reset()", found)
    if found.faults:
        return
    read = Observations(env.observation_space).read
    before, again = np.array(read(first)), np.array(read(env.reset(seed=_SEED)[0]))
    if not np.array_equal(before, again):
        found.warnings.append(
            "two resets with the same seed gave two different observations, so runs are not repeatable and a resume "
            "restarts episodes; draw random numbers from self.np_random after super().reset(seed=seed)"
        )


def _check_steps(env: Simulator, found: _Findings) -> None:
    env.action_space.seed(_SEED)
    for _ in range(_STEPS):
        answer = cast(object, env.step(env.action_space.sample()))
        parts = _parts(answer)
        if len(parts) != 5:
            found.faults.append(_wrong_step(answer))
            return
        observation, reward, terminated, truncated, info = parts
        _check_observation(env, observation, "step()", found)
        _check_outcome(reward, terminated, truncated, info, found)
        if found.faults:
            return
        if terminated or truncated:
            env.reset()


def _check_outcome(reward: object, terminated: object, truncated: object, info: object, found: _Findings) -> None:
    if isinstance(reward, bool) or not isinstance(reward, numbers.Real | np.number):
        found.faults.append(f"step() returned {_kind(reward)} as reward; it must be one number")
    elif not np.isfinite(float(cast(float, reward))):
        found.faults.append(f"step() returned {reward} as reward; it must be finite")
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_):
            found.faults.append(f"step() returned {_kind(value)} as {name}; it must be True or False")
    if not isinstance(info, dict):
        found.faults.append(f"step() returned {_kind(info)} as info; it must be a dict")


def _check_observation(env: Simulator, observation: object, call: str, found: _Findings) -> None:
    space = env.observation_space
    if isinstance(space, gymnasium.spaces.Box):
        _check_box(cast("gymnasium.spaces.Box[Any]", space), observation, call, found)
    elif not space.contains(observation):
        found.faults.append(f"{call} returned an observation that is not in {space}: {observation!r:.200}")


def _check_box(space: "gymnasium.spaces.Box[Any]", observation: object, call: str, found: _Findings) -> None:
    array: Any = np.asarray(observation)
    if array.shape != space.shape:
        found.faults.append(
            f"{call} returned an observation of shape {array.shape}; observation_space says {space.shape}"
        )
    elif not np.issubdtype(array.dtype, np.number):
        found.faults.append(f"{call} returned an observation of type {array.dtype}; it must be numbers")
    elif not np.isfinite(array).all():
        found.faults.append(f"{call} returned an observation with a value that is not finite")
    elif (array < space.low).any() or (array > space.high).any():
        told = (
            f"{call} returned an observation outside the bounds of observation_space; training goes on with it as it is"
        )
        if told not in found.warnings:
            found.warnings.append(told)


def _wrong_step(answer: object) -> str:
    if len(_parts(answer)) == 4:
        return (
            "step() returned 4 values (observation, reward, done, info), the API of old gym; it must return 5: "
            "observation, reward, terminated (the task ended), truncated (a limit cut it off), info"
        )
    return f"step() returned {_kind(answer)}; it must return (observation, reward, terminated, truncated, info)"


def _parts(answer: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", answer) if isinstance(answer, tuple) else ()


def _kind(value: object) -> str:
    parts = _parts(value)
    return f"a tuple of {len(parts)}" if parts else f"{value!r:.60} ({type(value).__name__})"
