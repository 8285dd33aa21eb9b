"""All processes of one training, as the session sees them: one thing that starts, updates, is saved and restored."""

import platform
import time
from collections import deque
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl import snapshot
from worker_core.training.rl.board import Board, Shape, size_of
from worker_core.training.rl.crew import (
    Begin,
    Learned,
    Mate,
    Restore,
    Tell,
    Told,
    Update,
    episodes_in_order,
)
from worker_core.training.rl.descent import NumpyDescent
from worker_core.training.rl.device import usable_cores
from worker_core.training.rl.meeting import SpinMeeting
from worker_core.training.rl.ppo import Alone, PpoLearner, PpoWorker, Stats
from worker_core.training.rl.simulators import EpisodeEnd, Maker, Simulators
from worker_core.training.rl.spaces import Observations
from worker_core.wire.plan import Plan

RECENT_EPISODES = 100
MOST_SHARDS = 8
_FEWEST_DECISIONS = 40_000
"""A training shorter than this ends before further processes have started."""
_FEWEST_ROWS = 16
"""Rows of a minibatch below which a part costs as much as the whole."""
_TRY_EVERY = 100
_OLD = 10
"""Updates after which what learning took tells nothing of the machine as it is now."""
Arrays = dict[str, NDArray[Any]]


def shards_of(plan: Plan, learner: PpoLearner) -> int:
    """Return into how many shards a training on this machine is cut."""
    if not isinstance(learner.descent, NumpyDescent) or plan.decisions < _FEWEST_DECISIONS:
        return 1
    return max(1, min(usable_cores(), MOST_SHARDS, plan.simulators, plan.skill.ppo.minibatch_size // _FEWEST_ROWS))


def _carriers() -> int:
    """Return how many processes may carry shards here: several only where :class:`SpinMeeting` holds."""
    return usable_cores() if platform.machine().lower() in ("x86_64", "amd64") else 1


class Team:
    """The simulators and learners of one training, in this process and further ones."""

    def __init__(
        self,
        plan: Plan,
        code: Path,
        make: Maker,
        observations: Observations,
        learner: PpoLearner,
        shards: int,
        processes: int | None = None,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the other processes; ``waiting`` is called while one of them is waited for, and may raise."""
        self.learner = learner
        self.shards = shards
        self.recent: deque[EpisodeEnd] = deque(maxlen=RECENT_EPISODES)
        self._plan = plan
        self._waiting = waiting
        # One process for each shard, or this one for all: what lies between is not worth its rules.
        count = shards if 1 < shards <= (_carriers() if processes is None else processes) else 1
        self._mates: list[Mate] = []
        descent = learner.descent
        shape = Shape.of(learner.policy, len(learner.joint.flat), plan.simulators, shards, plan.fragment, descent.slot)
        memory = get_context("spawn").RawArray("b", size_of(shape)) if count > 1 else None
        self._board = Board(shape, memory)
        own = range(shards) if count == 1 else range(1)
        actions = learner.policy.actions
        if count > 1:
            self._mates = [Mate(plan, code, self._board, memory, shard, shards) for shard in range(1, shards)]
        self._simulators: dict[int, Simulators] = {}
        for shard in own:
            first, end = shape.bounds(plan.simulators, shard)
            self._simulators[shard] = Simulators(
                make, end - first, observations, actions, first, plan.restart, plan.seed
            )
        self._together = (
            SpinMeeting(self._board.arrivals, 0, shards, self._spoken, self._fail) if self._mates else Alone()
        )
        self._worker = PpoWorker(learner, self._board, self._simulators, self._together, plan.seed)
        self._choice = _Choice()
        self._published: int | None = None
        """Steps of Adam behind what lies on the board, where this process learned alone and the others have to read."""

    def describe(self, device: str) -> str:
        """Say how this training is worked on."""
        by = "NumPy, by hand" if isinstance(self.learner.descent, NumpyDescent) else "torch"
        processes = 1 + len(self._mates)
        in_words = "one process" if processes == 1 else f"{processes} processes"
        return f"learning with {by}, on {device}; {self._plan.simulators} simulators in {in_words}"

    def start(self, seeds: list[int]) -> None:
        """Begin the first episodes with an untrained policy."""
        for shard, simulators in self._simulators.items():
            simulators.start(self._of(shard, seeds))
        for mate in self._mates:
            mate.say(Begin(self._of(mate.shard, seeds)))
        self.share()

    def share(self) -> None:
        """Let all processes know what the learner here knows."""
        if self._mates:
            arrays, state = snapshot.take_learner(self.learner)
            for mate in self._mates:
                mate.say(Learned({name: array.copy() for name, array in arrays.items()}, state))
        self._published = None

    def update(self, number: int, steps: int, learning_rate: float, tick: Callable[[int], None]) -> Stats:
        """Collect one rollout of ``steps`` steps and learn from it; ``tick`` hears of each step."""
        worker = self._worker
        alone = bool(self._mates) and self._choice.alone()
        for mate in self._mates:
            mate.say(Update(number, steps, learning_rate, alone, self._published))
        worker.meeting = self._together
        worker.collect(number, steps, tick)
        began = time.perf_counter()
        everything: tuple[int, ...] = ()
        if alone:
            worker.meeting, everything = Alone(), tuple(range(self.shards))
        stats = worker.learn(number, steps, learning_rate, lambda: tick(steps - 1), everything)
        self._choice.note(alone, (time.perf_counter() - began) / steps)
        self._published = self._publish() if alone else None
        ended = [simulators.take_ended() for simulators in self._simulators.values()]
        ended += [mate.answer(self._waiting) for mate in self._mates]
        self.recent.extend(episodes_in_order(ended))
        return stats

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return what :meth:`restore` needs of the simulators and of what was drawn."""
        for mate in self._mates:
            mate.say(Tell())
        states: list[dict[str, Any]] = []
        arrays: Arrays = {}
        running: list[NDArray[np.float64]] = []
        for shard, simulators in self._simulators.items():
            own_states, own_arrays = simulators.snapshot()
            states += own_states
            arrays |= own_arrays
            running.append(self._worker.running[shard])
        drawn, generators = snapshot.take_generators()
        arrays |= drawn
        others: dict[str, Any] = {}
        for mate in self._mates:
            told: Told = mate.answer()
            states += told.states
            arrays |= told.arrays
            running.append(told.running)
            drawn, others[str(mate.shard)] = told.generators
            arrays |= {f"shard.{mate.shard}.{name}": array for name, array in drawn.items()}
        arrays["running"] = np.concatenate(running)
        episodes = [[end.total, end.length, end.success] for end in self.recent]
        return arrays, {
            "shards": self.shards,
            "simulators": states,
            "generators": generators,
            "shard_generators": others,
            "episodes": episodes,
        }

    def restore(self, arrays: Arrays, state: dict[str, Any], fresh: list[int], tick: Callable[[], None]) -> list[int]:
        """Go on where :meth:`snapshot` was taken; returns the simulators that had to start a new episode."""
        running = arrays["running"]
        for mate in self._mates:
            prefix = f"shard.{mate.shard}."
            drawn = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            generators = state["shard_generators"].get(str(mate.shard))
            first, end = self._board.shape.bounds(self._plan.simulators, mate.shard)
            own = {
                name: array
                for name, array in arrays.items()
                if name.startswith("simulator.") and first <= int(name.split(".")[1]) < end
            }
            mate.say(
                Restore(
                    state["simulators"][first:end],
                    own,
                    fresh[first:end],
                    running[first:end],
                    (drawn, generators) if generators else None,
                )
            )
        inexact: list[int] = []
        for shard, simulators in self._simulators.items():
            own_states, own_fresh = self._of(shard, state["simulators"]), self._of(shard, fresh)
            inexact += simulators.restore(own_states, arrays, own_fresh, tick)
            self._worker.running[shard][:] = self._of(shard, running)
        for mate in self._mates:
            inexact += mate.answer(self._waiting)
        self.recent.extend(
            EpisodeEnd(float(total), int(length), success) for total, length, success in state["episodes"]
        )
        # Last, because making and replaying simulators may have drawn numbers.
        snapshot.restore_generators(arrays, state["generators"])
        self.share()
        return inexact

    def close(self) -> None:
        """End the other processes and free what the simulators hold."""
        for simulators in self._simulators.values():
            simulators.close()
        for mate in self._mates:
            mate.dismiss()  # all before any is waited for
        for mate in self._mates:
            mate.leave()
        self._mates = []

    def _spoken(self) -> bool:
        self._waiting()
        return any(mate.spoken for mate in self._mates)

    def _fail(self) -> NoReturn:
        for mate in self._mates:
            if mate.spoken:
                raise RuntimeError(f"shard {mate.shard} missed a meeting and said {mate.answer()!r}")
        raise RuntimeError("a shard missed a meeting")

    def _publish(self) -> int:
        """Put what was learned on the board and return how many steps of Adam that took."""
        descent = self.learner.descent
        assert isinstance(descent, NumpyDescent)
        replica = self._board.replica
        replica[0], replica[1], replica[2] = self.learner.joint.flat, descent.first, descent.second
        return descent.steps

    def _of(self, shard: int, values: Any) -> Any:
        first, end = self._board.shape.bounds(self._plan.simulators, shard)
        return values[first:end]


class _Choice:
    """Whether minibatches are worked on together, or by one process alone: whichever took less time of late.

    On a machine that others use, processes that wait for each other at every minibatch lose; the numbers are the same
    either way.
    """

    def __init__(self) -> None:
        self._took: dict[bool, float] = {}
        self._noted: dict[bool, int] = {}
        self._updates = 0

    def alone(self) -> bool:
        """Return how the next update is learned from."""
        self._updates += 1
        if len(self._took) < 2:
            return False in self._took
        tries_the_other = self._updates % _TRY_EVERY == 0
        return (self._took[True] < self._took[False]) != tries_the_other

    def note(self, alone: bool, seconds: float) -> None:
        """Take in how long learning took for each step."""
        if alone not in self._took or self._updates - self._noted[alone] > _OLD:
            self._took[alone] = seconds
        else:
            self._took[alone] = 0.7 * self._took[alone] + 0.3 * seconds
        self._noted[alone] = self._updates
