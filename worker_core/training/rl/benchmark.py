"""Benchmarks: what a policy earns on fixed starts, so that untrained and trained can be compared."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.simulators import BadSimulatorValue, Maker
from worker_core.training.rl.spaces import Actions, Floats, Observations

Choose = Callable[[Floats, Floats | None], NDArray[Any]]
"""From observations, each a column, and noise (none: greedy) to actions."""
_SIDE_BY_SIDE = 16


class Episode(msgspec.Struct, frozen=True, omit_defaults=True):
    """One benchmark episode."""

    seed: int
    total: float = msgspec.field(name="return")
    length: int
    terminated: bool
    truncated: bool
    success: bool | None = None


class Aggregate(msgspec.Struct, frozen=True, omit_defaults=True):
    """Returns of all episodes; ``ci95`` is half the width of the 95 % confidence interval of the mean."""

    mean: float
    median: float
    std: float
    min: float
    max: float
    ci95: float
    success_rate: float | None = None


class BenchmarkResult(msgspec.Struct, frozen=True):
    """One policy on one scenario."""

    aggregate: Aggregate
    episodes: tuple[Episode, ...]
    seconds: float
    """How long it took; not part of what is compared."""

    @property
    def steps(self) -> int:
        """Steps of all episodes together."""
        return sum(episode.length for episode in self.episodes)

    def metrics(self, prefix: str) -> dict[str, float]:
        """Return the aggregate as metrics below ``prefix``."""
        return {f"{prefix}/{name}": value for name, value in msgspec.to_builtins(self.aggregate).items()}


class Player:
    """Plays episodes with one policy that does not change meanwhile."""

    def __init__(
        self,
        make: Maker,
        observations: Observations,
        actions: Actions,
        choose: Choose,
    ) -> None:
        self._make = make
        self._read = observations.read
        self._actions = actions
        self._choose = choose

    def play(self, seeds: Sequence[int], *, greedy: bool, tick: Callable[[float], None]) -> BenchmarkResult:
        """Play one episode from each seed; ``tick`` hears the share that is done."""
        started = time.monotonic()
        envs = [self._make() for _ in range(min(_SIDE_BY_SIDE, len(seeds)))]
        rng = np.random.default_rng(seeds[0])
        waiting, ended = list(enumerate(seeds)), dict[int, Episode]()
        tables = [_Table(env) for env in envs]
        try:
            while True:
                for table in tables:
                    if table.number is None and waiting:
                        table.begin(*waiting.pop(0))
                busy = [table for table in tables if table.number is not None]
                if not busy:
                    break
                self._step(busy, rng, greedy=greedy, ended=ended)
                tick(len(ended) / len(seeds))
        finally:
            for env in envs:
                env.close()
        episodes = tuple(ended[number] for number in range(len(seeds)))
        return BenchmarkResult(summarise(episodes), episodes, time.monotonic() - started)

    def _step(self, busy: "list[_Table]", rng: np.random.Generator, *, greedy: bool, ended: dict[int, Episode]) -> None:
        seen = np.stack([np.asarray(self._read(table.shown), np.float32) for table in busy], axis=1)
        if not np.isfinite(seen).all():
            table = busy[int(np.argwhere(~np.isfinite(seen))[0][1])]
            raise BadSimulatorValue(f"in the benchmark episode of seed {table.seed} the simulator gave an observation")
        noise = None if greedy else self._actions.noise(rng, 1, len(busy))[0]
        chosen = self._choose(seen, noise)
        for table, action in zip(busy, self._actions.for_step(chosen), strict=True):
            number = table.number
            episode = table.step(action)
            if episode is not None and number is not None:
                ended[number] = episode


class _Table:
    """A simulator at which one benchmark episode after another is played."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.number: int | None = None
        self.shown: Any = None
        self.seed = 0
        self._total = 0.0
        self._length = 0

    def begin(self, number: int, seed: int) -> None:
        self.number, self.seed, self._total, self._length = number, seed, 0.0, 0
        self.shown, _ = self._env.reset(seed=seed)

    def step(self, action: Any) -> Episode | None:
        self.shown, reward, terminated, truncated, info = self._env.step(action)
        self._total += float(reward)
        self._length += 1
        if not math.isfinite(self._total):
            raise BadSimulatorValue(f"in the benchmark episode of seed {self.seed} the simulator gave a reward")
        if not (terminated or truncated):
            return None
        self.number = None
        success = info.get("is_success")
        return Episode(
            seed=self.seed,
            total=self._total,
            length=self._length,
            terminated=bool(terminated),
            truncated=bool(truncated),
            success=None if success is None else bool(success),
        )


def summarise(episodes: Sequence[Episode]) -> Aggregate:
    """Return mean, median, spread and bounds of the episodes' returns."""
    returns = np.array([episode.total for episode in episodes])
    successes = [episode.success for episode in episodes if episode.success is not None]
    spread = float(returns.std(ddof=1)) if len(returns) > 1 else 0.0
    return Aggregate(
        mean=float(returns.mean()),
        median=float(np.median(returns)),
        std=float(returns.std()),
        min=float(returns.min()),
        max=float(returns.max()),
        ci95=1.96 * spread / float(np.sqrt(len(returns))),
        success_rate=sum(successes) / len(successes) if successes else None,
    )
