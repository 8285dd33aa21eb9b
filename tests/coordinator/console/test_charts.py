"""Which metrics are pinned, how the rest is grouped, and what a browser gets of a series."""

import json

import msgspec

from coordinator.console.benchmarks import benchmark_rows
from coordinator.console.charts import grouped_plots, pinned_plots, series_for_browser, summary_words
from coordinator.storage.metrics import AttemptEdge, Bucket, MetricHead, Series
from worker_core.wire.client import FlagView
from worker_core.wire.codec import Number


def head(name: str, last: Number = 1.5, *, non_finite: int = 0, points: int = 20) -> MetricHead:
    return MetricHead(
        name=name,
        points=points,
        first_step=0,
        last_step=98_000,
        last=last,
        low=-2.0,
        high=3.0,
        non_finite=non_finite,
        last_time=0.0,
    )


def test_the_trainers_names_are_pinned_in_the_order_return_loss_speed() -> None:
    names = ["time/fps", "train/loss", "rollout/ep_rew_mean", "train/value_loss"]
    assert [(plot.title, plot.key) for plot in pinned_plots(names)] == [
        ("Return", "rollout/ep_rew_mean"),
        ("Loss", "train/loss"),
        ("Steps per second", "time/fps"),
    ]


def test_the_canonical_name_wins_over_an_alias() -> None:
    assert pinned_plots(["rollout/ep_rew_mean", "reward/mean"])[0].key == "reward/mean"


def test_other_metrics_are_grouped_by_prefix_and_benchmarks_have_their_own_page() -> None:
    names = ["train/loss", "train/lr", "x", "benchmark/policy/reset/mean", "sim/0/alive"]
    groups = grouped_plots(names, pinned_plots(names))
    assert {group.name: [plot.key for plot in group.plots] for group in groups} == {
        "train": ["train/lr"],
        "other": ["x"],
        "sim": ["sim/0/alive"],
    }


def test_a_summary_is_one_sentence_with_the_last_value_and_the_range() -> None:
    assert summary_words(head("a", 0.031, non_finite=3)) == (
        "0.031 at step 98,000, lowest −2, highest 3, 3 not finite (20 points)."
    )
    assert summary_words(head("a", "NaN", points=1)) == "NaN at step 98,000 (1 point)."


def test_values_that_are_not_finite_are_gaps_with_marks() -> None:
    points = [
        Bucket(attempt=1, step_first=0, step_last=1, low=1.0, high=2.0, last=1.5, count=2),
        Bucket(attempt=1, step_first=2, step_last=3, low=None, high=None, last=None, count=2, nan=1, pos_inf=1),
        Bucket(attempt=2, step_first=4, step_last=2**60, low=0.0, high=0.0, last=0.0, count=1),
    ]
    edges = [AttemptEdge(1, 0), AttemptEdge(2, 4)]
    series = Series(name="a", points=points, edges=edges, total=5, exact=False)
    flags = [FlagView(attempt=1, step=2**60, flag="nan", text="the loss is NaN", action="warn")]
    shown = json.loads(msgspec.json.encode(series_for_browser(series, head("a"), flags)))
    assert shown["x"] == [1, 3, 2**53]
    assert shown["last"] == [1.5, None, 0.0]
    assert shown["marks"] == [[3, "NaN", 1], [3, "+∞", 1]]
    assert shown["edges"] == [[0, 1], [4, 2]]
    assert shown["flags"] == [[2**53, "NaN"]]


def test_benchmarks_pair_the_untrained_with_the_trained_policy() -> None:
    rows = benchmark_rows(
        [
            head("benchmark/initial/policy/reset/mean", 20.0),
            head("benchmark/policy/reset/mean", 480.0),
            head("benchmark/policy/reset/ci95", "NaN"),
            head("benchmark/policy/reset/nonsense", 1.0),
            head("train/loss", 1.0),
        ]
    )
    assert len(rows) == 1
    assert rows[0].gain == 460.0
    assert set(rows[0].after) == {"mean", "ci95"}
