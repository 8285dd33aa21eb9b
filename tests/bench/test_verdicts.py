"""A benchmark with a target says whether it was met."""

import json

import pytest

from bench._stack import report_against


@pytest.mark.parametrize(
    ("figures", "within"),
    [
        ({"rss_mib": 60.0, "cpu_pct": 0.1}, True),
        ({"rss_mib": 60.1, "cpu_pct": 0.1}, False),
        ({"rss_mib": 59.0, "cpu_pct": 0.2}, False),
    ],
)
def test_a_figure_above_its_target_is_told_as_missed(
    capsys: pytest.CaptureFixture[str], figures: dict[str, object], within: bool
) -> None:
    limits = {"rss_mib": 60.0, "cpu_pct": 0.1}
    assert report_against(limits, {"bench": "idle-core", **figures}, json=True) is within
    assert json.loads(capsys.readouterr().out) == {"bench": "idle-core", **figures, "within_targets": within}
