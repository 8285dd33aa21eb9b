"""Further processes of one training: each has its shard of the simulators and of every minibatch.

They import no torch and get no message within an update: they act with their own copy of the policy, write into the
shared board, and take the same steps of Adam from the same sums. Between updates the first process tells them what
comes next over a pipe, and hears of the episodes that ended.
"""

import atexit
import faulthandler
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from worker_core.training.failures import FailedElsewhere, describe
from worker_core.training.outlet import open_outlet
from worker_core.training.rl import snapshot
from worker_core.training.rl.board import Board, Shape
from worker_core.training.rl.descent import NumpyDescent
from worker_core.training.rl.entries import find_simulator
from worker_core.training.rl.joint import Joint
from worker_core.training.rl.meeting import SpinMeeting
from worker_core.training.rl.policy import Policy
from worker_core.training.rl.ppo import PpoLearner, PpoWorker
from worker_core.training.rl.simulators import EpisodeEnd, Simulators
from worker_core.training.rl.spaces import Observations, read_actions
from worker_core.wire.frames import JobError
from worker_core.wire.plan import Plan

_LEAVE_S = 2.0
_LOOK_EVERY_S = 0.1
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Begin:
    """Begin the first episodes."""

    seeds: list[int]


@dataclass(frozen=True)
class Restore:
    """Go on where simulators stood; the answer is who had to start a new episode."""

    states: list[dict[str, Any]]
    arrays: Arrays
    fresh: list[int]
    running: NDArray[np.float64]
    generators: tuple[Arrays, dict[str, Any]] | None


@dataclass(frozen=True)
class Learned:
    """Take over what the first process knows."""

    arrays: Arrays
    state: dict[str, Any]


@dataclass(frozen=True)
class Update:
    """Do one update; the answer is the episodes that ended."""

    number: int
    steps: int
    learning_rate: float
    alone: bool
    """Whether the first process learns for all."""
    refresh: int | None
    """Take weights and Adam's moments from the board; so many steps Adam took."""


@dataclass(frozen=True)
class Tell:
    """Answer with everything a checkpoint needs of the simulators here."""


@dataclass(frozen=True)
class Told:
    """Answer to :class:`Tell`."""

    states: list[dict[str, object]]
    arrays: Arrays
    running: NDArray[np.float64]
    generators: tuple[Arrays, dict[str, Any]]


@dataclass(frozen=True)
class Failed:
    """The last word of a process whose simulator, or whose own code, raised an error."""

    error: JobError


Order = Begin | Restore | Learned | Update | Tell


class Mate:
    """One further process, seen from the first."""

    def __init__(self, plan: Plan, code: Path, board: Board, memory: Any, shard: int, processes: int) -> None:
        self.shard = shard
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, plan, code, board.shape, memory, shard, processes)
        self._process = context.Process(target=serve, args=arguments, name=f"simulators {shard}", daemon=True)
        self._process.start()
        theirs.close()
        # Python would wait at its own end for a process that waits for us.
        atexit.register(self.leave)

    def say(self, order: Order) -> None:
        """Tell it what to do."""
        try:
            self._pipe.send(order)
        except OSError:
            self.answer()

    def answer(self, waiting: Callable[[], None] = lambda: None) -> Any:
        """Return its answer; raises :class:`FailedElsewhere`. ``waiting`` is called meanwhile, and may raise."""
        try:
            while not self._pipe.poll(_LOOK_EVERY_S):
                waiting()
            said = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join(_LEAVE_S)
            text = f"the process of shard {self.shard} ended with code {self._process.exitcode}"
            failure = "signal" if (self._process.exitcode or 0) < 0 else "exception"
            raise FailedElsewhere(JobError(failure=failure, message=text)) from error
        if isinstance(said, Failed):
            raise FailedElsewhere(said.error)
        return said

    @property
    def spoken(self) -> bool:
        """Whether it said something that was not heard yet, or is gone."""
        return self._pipe.poll() or not self._process.is_alive()

    def dismiss(self) -> None:
        """Tell it to end."""
        self._pipe.close()

    def leave(self) -> None:
        """End it."""
        atexit.unregister(self.leave)
        self.dismiss()
        self._process.join(_LEAVE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()


def build(plan: Plan, code: Path) -> tuple[Callable[[], Any], Observations, PpoLearner]:
    """Return what makes simulators, how they are seen, and a learner without weights."""
    make = find_simulator(plan.entry, plan.init, plan.max_episode_steps, code)
    probe = make()
    observations, actions = Observations(probe.observation_space), read_actions(probe.action_space)
    probe.close()
    policy = Policy(observations.size, actions, plan.skill.ppo.hidden)
    joint = Joint(policy)
    return make, observations, PpoLearner(policy, joint, NumpyDescent(policy, joint, plan.skill.ppo), plan.skill.ppo)


def serve(pipe: Connection, plan: Plan, code: Path, shape: Shape, memory: Any, shard: int, processes: int) -> None:
    """Be one of the crew until the pipe is closed."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            # The first process decides when to stop, and closes the pipe.
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    faulthandler.enable()
    sys.dont_write_bytecode = True
    sys.stdout, sys.stderr = open_outlet(1), open_outlet(2)
    board = Board(shape, memory)

    def leave() -> NoReturn:
        raise EOFError

    meeting = SpinMeeting(board.arrivals, shard, processes, pipe.poll, leave)
    try:
        served = _Served(pipe, plan, code, board, meeting, shard)
        try:
            served.obey()
        finally:
            served.close()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except BaseException as error:  # the simulator's code may raise anything
        print(traceback.format_exc(), file=sys.stderr, flush=True)  # noqa: T201
        pipe.send(Failed(describe(error, code.parent)))


class _Served:
    """What one of the crew does."""

    def __init__(
        self,
        pipe: Connection,
        plan: Plan,
        code: Path,
        board: Board,
        meeting: SpinMeeting,
        shard: int,
    ) -> None:
        snapshot.seed_generators(plan.seed + shard)
        make, observations, self._learner = build(plan, code)
        first, end = board.shape.bounds(board.shape.simulators, shard)
        actions = self._learner.policy.actions
        self._simulators = Simulators(make, end - first, observations, actions, first, plan.restart, plan.seed)
        self._worker = PpoWorker(self._learner, board, {shard: self._simulators}, meeting, plan.seed)
        self._pipe, self._board, self._shard = pipe, board, shard
        self._look_at = 0.0

    def close(self) -> None:
        """Free what the simulators hold."""
        self._simulators.close()

    def _look_up(self, _step: int) -> None:
        """Notice between two slow steps that the first process is gone, or leaves."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_EVERY_S
            if self._pipe.poll():
                raise EOFError

    def obey(self) -> None:
        """Do what comes over the pipe until it is closed."""
        while True:
            match self._pipe.recv():
                case Begin(seeds):
                    self._simulators.start(seeds)
                case Restore() as told:
                    self._pipe.send(self._restore(told))
                case Learned(arrays, state):
                    snapshot.restore_learner(self._learner, arrays, state)
                case Update() as update:
                    self._update(update)
                    self._pipe.send(self._simulators.take_ended())
                case Tell():
                    states, arrays = self._simulators.snapshot()
                    running = self._worker.running[self._shard]
                    self._pipe.send(Told(states, arrays, running, snapshot.take_generators()))
                case other:
                    raise TypeError(f"{other!r} is no order")

    def _restore(self, told: Restore) -> list[int]:
        inexact = self._simulators.restore(told.states, told.arrays, told.fresh)
        self._worker.running[self._shard][:] = told.running
        if told.generators is not None:
            snapshot.restore_generators(*told.generators)
        return inexact

    def _update(self, update: Update) -> None:
        worker, learner = self._worker, self._learner
        descent = learner.descent
        assert isinstance(descent, NumpyDescent)
        if update.refresh is not None:
            learner.joint.flat[:], descent.first[:], descent.second[:] = self._board.replica
            descent.steps = update.refresh
        worker.collect(update.number, update.steps, self._look_up)
        if update.alone:
            learner.passes += learner.settings.n_epochs
        else:
            worker.learn(update.number, update.steps, update.learning_rate, _nothing)


def _nothing() -> None:
    """Nobody watches the minibatches here."""


def episodes_in_order(parts: list[list[EpisodeEnd]]) -> list[EpisodeEnd]:
    """Return the episodes of all processes in the order in which they ended."""
    return sorted((end for part in parts for end in part), key=lambda end: (end.row, end.simulator))
