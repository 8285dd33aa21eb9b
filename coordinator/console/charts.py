"""What a plot shows: which metrics are pinned, how the rest is grouped, and one series as the browser gets it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from coordinator.console.words import count_words, number_words
from coordinator.storage.metrics import Bucket, MetricHead, Series
from worker_core.wire.client import FlagView

LARGEST_JS_STEP = 2**53


@dataclass(frozen=True)
class Plot:
    """One chart: the metric it draws and what it is called."""

    key: str
    title: str
    unit: str = ""


@dataclass(frozen=True)
class Group:
    """Metrics that share a prefix."""

    name: str
    plots: tuple[Plot, ...]


PINNED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Return",
        "mean over episodes",
        (
            "reward/mean",
            "rollout/ep_rew_mean",
            "Train/mean_reward",
            "charts/episodic_return",
            "env_runners/episode_return_mean",
            "eval/mean_reward",
        ),
    ),
    ("Loss", "", ("loss/total", "train/loss", "loss", "train_loss")),
    (
        "Steps per second",
        "",
        ("throughput/steps_per_second", "time/fps", "Perf/total_fps", "charts/SPS", "train_steps_per_second"),
    ),
)
NO_CURVE = ("benchmark/",)
"""Prefixes of metrics that have one value, shown on their own page."""


def pinned_plots(names: Sequence[str]) -> list[Plot]:
    """Return the charts at the top; one whose metric has not come yet keeps its place under its first name."""
    present = set(names)
    plots: list[Plot] = []
    for title, unit, aliases in PINNED:
        key = next((alias for alias in aliases if alias in present), None)
        if key is not None:
            plots.append(Plot(key, title, unit))
    return plots


def grouped_plots(names: Sequence[str], pinned: Sequence[Plot]) -> list[Group]:
    """Return all other metrics, grouped by what stands before their first slash."""
    taken = {plot.key for plot in pinned}
    groups: dict[str, list[Plot]] = {}
    for name in sorted(names):
        if name not in taken and not name.startswith(NO_CURVE):
            prefix, slash, _ = name.partition("/")
            groups.setdefault(prefix if slash else "other", []).append(Plot(name, name))
    return [Group(prefix, tuple(plots)) for prefix, plots in groups.items()]


def summary_words(head: MetricHead) -> str:
    """Say in one sentence where a metric stands."""
    said = f"{number_words(head.last)} at step {count_words(head.last_step)}"
    if head.low is not None and head.high is not None and head.points > 1:
        said += f", lowest {number_words(head.low)}, highest {number_words(head.high)}"
    if head.non_finite:
        said += f", {count_words(head.non_finite)} not finite"
    points = "1 point" if head.points == 1 else f"{count_words(head.points)} points"
    return f"{said} ({points})."


FLAG_WORDS = {"stall": "stall", "nan": "NaN", "gradient": "gradients"}


def series_for_browser(
    series: Series, head: MetricHead | None, flags: Sequence[FlagView] = (), superseded: Sequence[Bucket] = ()
) -> dict[str, object]:
    """Return a series as columns: null where there is no finite value, marks where there is none of any kind.

    ``flags`` are the steps at which training went wrong, each with a short word; ``superseded`` are points that a
    newer attempt hides, drawn faintly, one line for each attempt.
    """
    marks = [
        [bucket.step_last, word, count]
        for bucket in series.points
        for word, count in (("NaN", bucket.nan), ("+∞", bucket.pos_inf), ("−∞", bucket.neg_inf))
        if count
    ]
    return {
        "key": series.name,
        "x": [_js_step(bucket.step_last) for bucket in series.points],
        "low": [bucket.low for bucket in series.points],
        "high": [bucket.high for bucket in series.points],
        "last": [bucket.last for bucket in series.points],
        "marks": marks,
        "flags": [[_js_step(flag.step), FLAG_WORDS.get(flag.flag, flag.flag)] for flag in flags],
        "superseded": [_faint_line(list(group)) for _, group in groupby(superseded, lambda point: point.attempt)],
        "edges": [[_js_step(edge.step), edge.attempt] for edge in series.edges],
        "total": series.total,
        "exact": series.exact,
        "summary": summary_words(head) if head else "No points yet.",
    }


def _faint_line(points: Sequence[Bucket]) -> dict[str, object]:
    return {
        "attempt": points[0].attempt,
        "x": [_js_step(point.step_last) for point in points],
        "last": [point.last for point in points],
    }


def _js_step(step: int) -> int:
    return min(step, LARGEST_JS_STEP)
