"""One rl-session from start to end: benchmark the untrained policy, train it, benchmark it again, write the results."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np

from worker_core.training import health
from worker_core.training.checkpoints import Arrays, CheckpointStore, State, load_checkpoint
from worker_core.training.failures import JobFailure, LeaveNow
from worker_core.training.files import JobFolder
from worker_core.training.reporter import Reporter
from worker_core.training.rl import results, snapshot
from worker_core.training.rl.benchmark import BenchmarkResult, Choose, Player
from worker_core.training.rl.checker import UnfitSimulator, check_simulator
from worker_core.training.rl.curves import Curves
from worker_core.training.rl.delivery import Trained, deliver
from worker_core.training.rl.device import choose_descent
from worker_core.training.rl.entries import find_simulator
from worker_core.training.rl.joint import Joint
from worker_core.training.rl.pace import Pace
from worker_core.training.rl.policy import Policy
from worker_core.training.rl.ppo import PpoLearner, Stats, generator
from worker_core.training.rl.spaces import Observations, read_actions
from worker_core.training.rl.team import Team, shards_of
from worker_core.training.usage import UsageMeter
from worker_core.wire.plan import Plan

UNTRAINED, TRAINING, TRAINED, EXPORTING = "benchmark untrained", "training", "benchmark trained", "exporting"
RESUMING = "resuming"
_SHARES = {UNTRAINED: (0.0, 0.02), TRAINING: (0.02, 0.96), TRAINED: (0.96, 0.99), EXPORTING: (0.99, 1.0)}
_MOST_POINTS = 1_000
_FIRST_POINTS = 10
_CHANCE = 5
"""What a generator is for, beside those of :mod:`worker_core.training.rl.ppo`."""


@dataclass
class _Counters:
    """Where the session stands; all of it is in every checkpoint."""

    steps: int = 0
    """Steps of each simulator; times their number it is the count of decisions."""
    updates: int = 0
    train_seconds: float = 0.0
    best_return: float | None = None
    best_decision: int = 0
    evaluated_cycle: int = 0
    best_evaluation: float | None = None
    evaluations_since_best: int = 0


class RlSession:
    """Trains one skill as the plan says. ``run`` raises LeaveNow when the job was told to leave."""

    def __init__(self, folder: JobFolder, plan: Plan, spec_sha256: str, reporter: Reporter, usage: UsageMeter) -> None:
        self._folder, self._plan, self._reporter, self._usage = folder, plan, reporter, usage
        self._spec_sha256 = spec_sha256
        self._make = find_simulator(plan.entry, plan.init, plan.max_episode_steps, folder.code)
        self._warnings = self._check()
        snapshot.seed_generators(plan.seed)
        probe = self._make()
        self._observations, self._actions = Observations(probe.observation_space), read_actions(probe.action_space)
        probe.close()
        policy = Policy(self._observations.size, self._actions, plan.skill.ppo.hidden)
        policy.initialise(snapshot.first_weights(plan.seed))
        joint = Joint(policy)
        descent, self._device = choose_descent(plan, policy, joint)
        self._learner = PpoLearner(policy, joint, descent, plan.skill.ppo)
        self._resume = self._read_resume()
        shards = shards_of(plan, self._learner) if self._resume is None else int(self._resume[1]["team"]["shards"])
        whose = (plan, folder.code, self._make, self._observations, self._learner)
        self._team = Team(*whose, shards, waiting=reporter.leave_in_time)
        self._store = CheckpointStore(folder.checkpoints, spec_sha256, plan.checkpoint_keep)
        self._counters = _Counters()
        self._curves = Curves()
        self._health = health.HealthState()
        self._is_sound = True
        """Whether all weights are finite: others are neither saved nor delivered."""
        self._initial: BenchmarkResult | None = None
        self._resumed_from: int | None = None
        self._saved_at: int | None = None
        self._next_save = 0.0
        self._points_apart = max(1, plan.updates // _MOST_POINTS)
        self._restarted: list[int] = []

    @property
    def _decisions(self) -> int:
        return self._counters.steps * self._plan.simulators

    def run(self) -> None:
        """Do the whole session, or what is left of it."""
        try:
            self._start_or_resume()
            if self._initial is None:
                self._initial = self._benchmark(UNTRAINED)
                self._reporter.metrics(0, self._initial.metrics(results.benchmark_name(self._plan, "initial/")))
                self._save()
            self._train(self._initial)
            final = self._benchmark(TRAINED)
            self._reporter.metrics(self._decisions, final.metrics(results.benchmark_name(self._plan)))
            self._export(results.Compared(self._initial, self._benchmark_at_random(), final))
        finally:
            self._team.close()

    # Start, and resume

    def _check(self) -> list[str]:
        try:
            return check_simulator(self._plan.entry, self._make)
        except UnfitSimulator as error:
            raise JobFailure("bad-spec", str(error)) from error

    def _start_or_resume(self) -> None:
        for warning in self._warnings:
            self._reporter.log(f"simulator: {warning}")
        self._reporter.log(self._team.describe(self._device))
        if self._resume is None:
            self._team.start(snapshot.simulator_seeds(self._plan.seed, self._plan.simulators))
            return
        self._restore(*self._resume)
        self._resume = None

    def _read_resume(self) -> tuple[Arrays, State] | None:
        note = self._folder.read_resume_note()
        return None if note is None else load_checkpoint(self._folder.resume, note.sha256, self._spec_sha256)

    def _restore(self, arrays: Arrays, state: State) -> None:
        plan = self._plan
        self._counters = _Counters(**state["counters"])
        self._curves = Curves(state["curves"])
        self._health = msgspec.convert(state["health"], health.HealthState)
        self._initial = msgspec.convert(state["initial"], BenchmarkResult)
        snapshot.restore_learner(self._learner, arrays, state["learner"])
        fresh = snapshot.simulator_seeds(plan.seed, plan.simulators, self._decisions)
        inexact = self._team.restore(arrays, state["team"], fresh, self._replay_tick())
        self._resumed_from = self._saved_at = self._decisions
        self._reporter.log(f"resumed at decision {self._decisions:,} of {plan.decisions:,}")
        self._restarted = inexact
        if inexact:
            names = ", ".join(str(index) for index in inexact)
            self._reporter.log(f"the resume is inexact: simulators {names} did not replay and started a new episode")

    def _replay_tick(self) -> Callable[[], None]:
        """Begin to replay the episodes of a resumed session; what is returned is called for each step of them."""
        first, last = _SHARES[TRAINING]
        decisions = self._decisions
        share = first + (last - first) * decisions / self._plan.decisions
        self._reporter.begin(RESUMING, decisions, (share, share))

        def tick() -> None:
            if self._reporter.leaving():
                # The checkpoint that is being restored stays the newest.
                raise LeaveNow
            self._reporter.tick(decisions, 0.0)

        return tick

    # Benchmark

    def _benchmark(self, phase: str) -> BenchmarkResult:
        decisions = self._decisions
        self._reporter.begin(phase, decisions, _SHARES[phase])
        # The checkpoint before this benchmark is saved, or there is nothing to save yet.
        return self._play(self._learner.choose, lambda share: self._reporter.tick(decisions, share))

    def _play(
        self, choose: Choose, told: Callable[[float], None], save: Callable[[], None] = lambda: None
    ) -> BenchmarkResult:
        """Play the benchmark's episodes; ``told`` hears the share that is done, ``save`` comes before leaving."""

        def tick(share: float) -> None:
            if self._reporter.leaving():
                save()
                raise LeaveNow
            told(share)

        rule = self._plan.benchmark
        player = Player(self._make, self._observations, self._actions, choose)
        return player.play(rule.seeds, greedy=rule.policy == "greedy", tick=tick)

    def _benchmark_at_random(self) -> BenchmarkResult:
        """Play the same starts with actions of chance: what is worth less than that has learned nothing."""
        actions, rng = self._actions, generator(self._plan.benchmark.seeds[0], _CHANCE)
        return self._play(
            lambda seen, _noise: actions.random(rng, seen.shape[1]),
            lambda _share: self._reporter.tick(self._decisions, 1.0),
        )

    # Train

    def _train(self, initial: BenchmarkResult) -> None:
        plan, counters = self._plan, self._counters
        self._reporter.begin(TRAINING, self._decisions, _SHARES[TRAINING])
        self._next_save = time.monotonic() + plan.checkpoint_every_s
        pace = Pace(self._decisions)
        self._evaluate()  # what a stop has cut short
        while not self._ended:
            started = time.monotonic()
            steps = min(plan.fragment, plan.steps_per_simulator - counters.steps)
            stats = self._update(steps, pace, initial)
            counters.steps += steps
            counters.updates += 1
            counters.train_seconds += time.monotonic() - started
            self._usage.steps = self._decisions - pace.began_at
            told = self._ended or counters.updates <= _FIRST_POINTS or counters.updates % self._points_apart == 0
            if told:
                self._tell_update(stats, pace)
            self._mind_health(stats)
            self._evaluate()
            if self._ended and not told:
                self._tell_update(stats, pace)
            self._at_boundary(ended=self._ended)
        if not self._is_sound:
            raise JobFailure("numeric", "training ended with weights that are no numbers, so there is no result")

    @property
    def _cycle(self) -> int:
        """How many cycles are done."""
        plan = self._plan
        return self._decisions // (plan.decisions_per_cycle * plan.simulators * plan.machine_factor)

    @property
    def _ended(self) -> bool:
        patience, counters = self._plan.patience_evals, self._counters
        out_of_patience = patience is not None and counters.evaluations_since_best >= patience
        return counters.steps >= self._plan.steps_per_simulator or out_of_patience

    def _evaluate(self) -> None:
        """At the end of a cycle see whether the policy got better, where training may end early for want of that."""
        counters, learned = self._counters, bool(np.isfinite(self._learner.policy.flat).all())
        if self._plan.patience_evals is None or self._cycle == counters.evaluated_cycle or not learned:
            return
        found = self._play(self._learner.choose, self._tick_on, self._save).aggregate
        counters.evaluated_cycle = self._cycle
        stats = {"eval/mean_reward": found.mean}
        if found.success_rate is not None:
            stats["eval/success_rate"] = found.success_rate
        self._tell(stats)
        if counters.best_evaluation is None or found.mean > counters.best_evaluation:
            counters.best_evaluation, counters.evaluations_since_best = found.mean, 0
            return
        counters.evaluations_since_best += 1
        if counters.evaluations_since_best == self._plan.patience_evals:
            self._reporter.log(
                f"training ends early at decision {self._decisions:,}: the last {counters.evaluations_since_best} "
                f"evaluations were not above the best return, {counters.best_evaluation:,.1f}"
            )

    def _tell_update(self, stats: Stats, pace: Pace) -> None:
        self._tell(stats | self._rollout_stats() | {"time/fps": pace.take_speed(self._decisions)})

    def _tell(self, stats: Stats) -> None:
        self._reporter.metrics(self._decisions, stats)
        self._curves.add(self._decisions, stats)

    def _tick_on(self, _share: float) -> None:
        self._reporter.tick(self._decisions, self._decisions / self._plan.decisions)

    def _update(self, steps: int, pace: Pace, initial: BenchmarkResult) -> Stats:
        """Collect one rollout and learn from it."""
        plan, before = self._plan, self._decisions

        def tick(row: int) -> None:
            done = before + (row + 1) * plan.simulators
            self._reporter.tick(done, done / plan.decisions, lambda: self._time_left(done, pace, initial))

        return self._team.update(self._counters.updates, steps, self._learning_rate(), tick)

    def _at_boundary(self, *, ended: bool) -> None:
        """Between two updates all of the session's state is at rest: the one place where checkpoints are taken."""
        leaving = self._reporter.leaving()
        ordered = self._reporter.checkpoint_ordered()
        if self._is_sound and (leaving or ended or ordered or time.monotonic() >= self._next_save):
            self._save()
        if leaving:
            raise LeaveNow

    def _learning_rate(self) -> float:
        ppo, plan = self._plan.skill.ppo, self._plan
        rate = ppo.learning_rate * self._health.learning_rate_share
        if ppo.learning_rate_schedule == "constant":
            return rate
        return rate * (1 - self._counters.steps / plan.steps_per_simulator)

    def _rollout_stats(self) -> Stats:
        plan, recent = self._plan, self._team.recent
        stats: Stats = {
            "time/total_timesteps": float(self._decisions),
            f"skill/{plan.skill.name}/cycle": float(self._cycle),
        }
        if recent:
            stats["rollout/ep_rew_mean"] = sum(end.total for end in recent) / len(recent)
            stats["rollout/ep_len_mean"] = sum(end.length for end in recent) / len(recent)
        told = [end.success for end in recent if end.success is not None]
        if told:
            stats["rollout/success_rate"] = sum(told) / len(told)
        return stats

    def _time_left(self, done: int, pace: Pace, initial: BenchmarkResult) -> float | None:
        """Return seconds to the end: the rest of training at the pace so far, and the last benchmark."""
        per_decision = pace.seconds_per_decision(done)
        if per_decision is None:
            return None
        recent = self._team.recent
        length = sum(end.length for end in recent) / len(recent) if recent else 0.0
        benchmark = length * self._plan.benchmark.episodes * initial.seconds / max(1, initial.steps)
        return (self._plan.decisions - done) * per_decision + benchmark

    def _mind_health(self, stats: Stats) -> None:
        """Tell what goes wrong with this update, and do what the spec says about it."""
        self._is_sound = bool(np.isfinite(self._learner.policy.flat).all())
        update = health.Update(stats["train/loss"], stats["train/grad_norm"], self._is_sound)
        finding = health.judge(self._health, update, self._plan.health)
        if finding is None:
            return
        self._reporter.flag(self._decisions, finding)
        if finding.action == "stop":
            again = f" again, after {self._health.rollbacks} roll backs" if self._health.rollbacks else ""
            raise JobFailure("numeric", f"at decision {self._decisions:,}{again}, {finding.text}")
        if finding.action == "rollback":
            self._roll_back()

    def _roll_back(self) -> None:
        """Go on from what the last good checkpoint had learned, more slowly; the decisions made stay made."""
        arrays, state, step = self._last_good()
        snapshot.restore_learner(self._learner, arrays, state["learner"])
        self._team.share()
        health.rolled_back(self._health)
        self._is_sound = True
        self._reporter.log(
            f"rolled back to what was learned by decision {step:,}; the learning rate is "
            f"{self._health.learning_rate_share:g} times its plan from here on "
            f"(roll back {self._health.rollbacks} of {health.MAX_ROLLBACKS})"
        )

    def _last_good(self) -> tuple[Arrays, State, int]:
        """Return the newest checkpoint that is whole: of this attempt, else the one it was resumed from."""
        found = self._store.newest(self._reporter.log)
        if found is not None:
            return found
        note = self._folder.read_resume_note()
        if note is None:
            raise JobFailure("numeric", "training diverged before there was a checkpoint to go back to")
        return *load_checkpoint(self._folder.resume, note.sha256, self._spec_sha256), note.step

    # Keep

    def _save(self) -> None:
        self._next_save = time.monotonic() + self._plan.checkpoint_every_s
        if self._saved_at == self._decisions:
            return
        recent = self._team.recent
        score = sum(end.total for end in recent) / len(recent) if recent else float("-inf")
        counters = self._counters
        if recent and (counters.best_return is None or score > counters.best_return):
            counters.best_return, counters.best_decision = score, self._decisions
        arrays, state = self._snapshot()
        artifact = self._store.save(arrays, state, self._decisions, score)
        self._store.announced(self._reporter.checkpoint(artifact))
        self._store.prune(self._reporter.is_kept)
        self._saved_at = self._decisions

    def _snapshot(self) -> tuple[Arrays, State]:
        learner_arrays, learner = snapshot.take_learner(self._learner)
        team_arrays, team = self._team.snapshot()
        state: State = {
            "counters": vars(self._counters).copy(),
            "curves": self._curves.points(),
            "initial": msgspec.to_builtins(self._initial),
            "learner": learner,
            "team": team,
            "health": msgspec.to_builtins(self._health),
        }
        return {**learner_arrays, **team_arrays}, state

    def _export(self, compared: results.Compared) -> None:
        counters = self._counters
        self._reporter.begin(EXPORTING, self._decisions, _SHARES[EXPORTING])
        metrics = self._rollout_stats()
        if counters.best_return is not None:
            metrics |= {"best/ep_rew_mean": counters.best_return, "best/decision": float(counters.best_decision)}
        trained = Trained(
            learner=self._learner,
            observations=self._observations,
            compared=compared,
            metrics=metrics,
            curves=self._curves,
            device=self._device,
            train_seconds=counters.train_seconds,
            lineage={"resumed_from_decision": self._resumed_from, "restarted_simulators": self._restarted},
        )
        for artifact in deliver(self._plan, self._spec_sha256, self._folder, trained):
            self._reporter.result(artifact)
            self._reporter.tick(self._decisions, 1.0)
        self._reporter.deliver_log(self._folder.results)
