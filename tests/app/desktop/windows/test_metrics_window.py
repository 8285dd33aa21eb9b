"""The live-metrics window: history first, then points as they come, and nothing while nobody looks."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QComboBox, QLabel

from app.desktop.control.metric_source import MetricSource
from app.desktop.presenter.curves import LOSS, RETURN, SPEED
from app.desktop.windows.metrics import LOAD_FRESH_S, REDRAW_MS, MetricsWindow
from tests.desktop.scripted_core import ATTEMPT, OLDER, ScriptedCore, paired, training
from tests.desktop.wiring import Wired
from worker_core.control.messages import ErrorBody

Wait = Callable[..., None]


@pytest.fixture
def opened(core: ScriptedCore, link: Wired, owner: QObject, wait: Wait) -> Iterator[tuple[MetricsWindow, MetricSource]]:
    core.set_status(training())
    wait(lambda: (status := link.store.situation.live) is not None and status.job)
    source = MetricSource(owner, link.client, link.store)
    window = MetricsWindow(source, link.store)
    window.show()
    yield window, source
    window.close()
    window.deleteLater()


def texts(window: MetricsWindow) -> str:
    return "\n".join(shown.text() for shown in window.findChildren(QLabel) if shown.isVisible())


def test_the_running_attempt_is_shown_with_history_progress_and_time_left(
    core: ScriptedCore, opened: tuple[MetricsWindow, MetricSource], wait: Wait
) -> None:
    window, source = opened
    wait(lambda: len(source.curves[RETURN].steps) == 400)
    assert core.asked("history")[0]["attempt_id"] == ATTEMPT
    assert set(core.asked("history")[0]["names"]) == {RETURN, LOSS, SPEED}
    wait(lambda: re.search(r"2 min (2\d|1\d) s left", texts(window)))
    assert "lunar lander" in texts(window)
    assert "45 %" in texts(window)
    wait(lambda: "CPU 42 %" in texts(window))


def test_points_follow_the_history_and_show_at_once(
    core: ScriptedCore, opened: tuple[MetricsWindow, MetricSource], wait: Wait
) -> None:
    window, source = opened
    wait(lambda: source.curves[RETURN].steps)
    wait(lambda: core.subscribed_metrics)
    core.emit_metric(460_000, {RETURN: 261.4, SPEED: 9300.0, "train/entropy": 1.0})
    wait(lambda: source.curves[RETURN].newest == 261.4)
    wait(lambda: "261.4" in texts(window))


def test_nan_is_shown_and_not_hidden(
    core: ScriptedCore, opened: tuple[MetricsWindow, MetricSource], wait: Wait
) -> None:
    window, source = opened
    wait(lambda: source.curves[LOSS].steps)
    core.emit_metric(460_000, {LOSS: "NaN"})
    wait(lambda: "NaN at step 460,000" in texts(window))


def test_an_older_attempt_can_be_chosen_and_stays_chosen(
    core: ScriptedCore, opened: tuple[MetricsWindow, MetricSource], wait: Wait
) -> None:
    window, source = opened
    wait(lambda: window.findChildren(QComboBox)[0].count() == 2)
    choice = window.findChildren(QComboBox)[0]
    choice.setCurrentIndex(1)
    choice.activated.emit(1)
    wait(lambda: core.asked("history")[-1]["attempt_id"] == OLDER)
    core.set_status(training(0.5))
    wait(lambda: "This attempt is not running." in texts(window))
    assert source.chosen == OLDER


def test_a_client_that_missed_points_asks_for_the_history_again(
    core: ScriptedCore, opened: tuple[MetricsWindow, MetricSource], wait: Wait
) -> None:
    _, source = opened
    wait(lambda: source.curves[RETURN].steps)
    source._resync.setInterval(50)
    before = len(core.asked("history"))
    core.emit_metric(460_000, {RETURN: 1.0}, lost=7)
    wait(lambda: len(core.asked("history")) > before)


def test_a_history_that_could_not_be_had_is_asked_for_again(
    core: ScriptedCore, link: Wired, owner: QObject, wait: Wait
) -> None:
    core.set_status(training())
    core.errors["history"] = ErrorBody(code="failed", text="The journal is busy.")
    wait(lambda: (status := link.store.situation.live) is not None and status.job)
    source = MetricSource(owner, link.client, link.store)
    source._resync.setInterval(50)
    source.open()
    wait(lambda: source.trouble == "The journal is busy.")
    core.errors.clear()
    wait(lambda: len(source.curves[RETURN].steps) == 400)
    assert source.trouble == ""
    source.close()


def test_an_attempt_that_ended_is_not_called_running(
    core: ScriptedCore, opened: tuple[MetricsWindow, MetricSource], wait: Wait
) -> None:
    window, _ = opened
    choice = window.findChildren(QComboBox)[0]
    wait(lambda: "(running)" in choice.currentText())
    core.set_status(paired())
    wait(lambda: "(running)" not in choice.currentText())
    wait(lambda: "No job is running." in texts(window))


def test_a_load_of_long_ago_is_not_shown_as_the_load_of_now(
    opened: tuple[MetricsWindow, MetricSource], link: Wired, wait: Wait
) -> None:
    window, source = opened
    wait(lambda: source.curves[RETURN].steps and "CPU 42 %" in texts(window))
    link.store._loads = deque([replace(link.store.loads[-1], at=link.store.loads[-1].at - LOAD_FRESH_S - 1)])
    wait(lambda: "CPU" not in texts(window))


def test_a_hidden_window_has_no_timer_running_and_asks_for_no_metrics(
    core: ScriptedCore, opened: tuple[MetricsWindow, MetricSource], wait: Wait
) -> None:
    window, _ = opened
    wait(lambda: core.subscribed_metrics)
    window.close()
    wait(lambda: not core.subscribed_metrics)
    core.set_status(training(0.6))
    assert not [timer for timer in window.findChildren(QTimer) if timer.isActive()]


def test_many_points_a_second_cost_at_most_four_drawings(
    core: ScriptedCore, opened: tuple[MetricsWindow, MetricSource], wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, source = opened
    wait(lambda: source.curves[RETURN].steps)
    drawn: list[int] = []
    original = window._draw_head
    monkeypatch.setattr(window, "_draw_head", lambda: (drawn.append(1), original())[1])
    for step in range(200):
        core.emit_metric(460_000 + step, {RETURN: float(step)})
    wait(lambda: source.curves[RETURN].newest == 199.0)
    assert len(drawn) <= 2 + 1000 // REDRAW_MS


def test_before_the_first_job_the_window_says_so(core: ScriptedCore, link: Wired, owner: QObject, wait: Wait) -> None:
    core.has_attempts = False
    core.set_status(paired())
    source = MetricSource(owner, link.client, link.store)
    window = MetricsWindow(source, link.store)
    window.show()
    wait(lambda: "No job has run on this computer yet." in texts(window))
    window.close()
    window.deleteLater()
