"""The live-metrics window: return, loss, speed and load of a job, with its progress."""

import time

from PySide6.QtCore import QEvent, QTimer, Slot
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QComboBox, QGridLayout, QHBoxLayout, QProgressBar, QVBoxLayout, QWidget

from app.desktop.control.metric_source import MetricSource
from app.desktop.control.store import LoadPoint, WorkerStore
from app.desktop.presenter.attempts import attempt_label, headline, no_values_words, progress_words
from app.desktop.presenter.curves import LOSS, RETURN, SPEED, Curve
from app.desktop.presenter.wording import count, figure, percent
from app.desktop.windows.chart import Line, Panel
from app.desktop.windows.parts import GAP, MARGIN, label
from worker_core.wire.codec import number_from_wire
from worker_core.wire.durations import format_duration

REDRAW_MS = 250
LOAD_SPAN_S = 300.0
LOAD_FRESH_S = 60.0
"""Twice the longest time between two of the core's readings; an older one says nothing about now."""
SHORTEST_LOAD_SPAN_S = 60.0


class MetricsWindow(QWidget):
    """Draws at most four times a second while it is seen, and nothing at all while it is not."""

    def __init__(self, source: MetricSource, store: WorkerStore) -> None:
        super().__init__()
        self._source = source
        self._store = store
        self.setWindowTitle("Live metrics")
        self.resize(980, 720)
        self._build()
        self._redraw = QTimer(self, singleShot=True, interval=REDRAW_MS)
        self._redraw.timeout.connect(self._draw)
        self._clock = QTimer(self, interval=1000)
        self._clock.timeout.connect(self._schedule)
        source.changed.connect(self._schedule)
        source.attempts_changed.connect(self._show_attempts)
        store.changed.connect(self._schedule)
        QShortcut(QKeySequence.StandardKey.Close, self, self.close)
        QShortcut(QKeySequence.StandardKey.Cancel, self, self.close)

    def _build(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        layout.setSpacing(GAP)
        layout.addLayout(self._build_head())
        self._bar = QProgressBar(maximum=1000)
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName("Progress of the job")
        layout.addWidget(self._bar)
        self._progress = label(role="muted", wrap=True)
        layout.addWidget(self._progress)
        layout.addSpacing(4)
        self._panels = {
            RETURN: Panel("Return", [lambda colour: colour.accent], _step_in_words),
            LOSS: Panel("Loss", [lambda colour: colour.loss], _step_in_words),
            SPEED: Panel("Steps per second", [lambda colour: colour.speed], _step_in_words),
        }
        self._load = Panel(
            "Device load", [lambda colour: colour.muted, lambda colour: colour.second], _seconds_in_words, _seconds_tick
        )
        self._load.fix_range(0, 100)
        grid = QGridLayout()
        grid.setSpacing(GAP)
        for position, panel in enumerate((*self._panels.values(), self._load)):
            grid.addWidget(panel, position // 2, position % 2)
        layout.addLayout(grid, 1)

    def _build_head(self) -> QHBoxLayout:
        self._headline = label(role="title", wrap=True)
        self._choice = QComboBox()
        self._choice.setAccessibleName("Attempt to show")
        self._choice.setToolTip("Which attempt to show")
        self._choice.setMinimumWidth(260)
        self._choice.activated.connect(self._on_chosen)
        row = QHBoxLayout()
        row.addWidget(self._headline, 1)
        row.addWidget(self._choice)
        return row

    def recolour(self) -> None:
        """Take the colours that apply now."""
        for panel in (*self._panels.values(), self._load):
            panel.recolour()

    @Slot()
    def _schedule(self) -> None:
        if self.isVisible() and not self.isMinimized() and not self._redraw.isActive():
            self._redraw.start()

    @Slot()
    def _draw(self) -> None:
        self._draw_head()
        empty = no_values_words(
            self._store.situation, self._source.chosen, self._source.is_loading, self._source.trouble
        )
        for name, panel in self._panels.items():
            self._draw_curve(panel, self._source.curves[name], empty)
        self._draw_load()

    def _draw_head(self) -> None:
        situation = self._store.situation
        chosen = next((item for item in self._source.attempts if item.attempt_id == self._source.chosen), None)
        self._headline.setText(headline(situation, chosen))
        job = situation.live.job if situation.live else None
        shows_running = job is not None and self._source.chosen in (job.attempt_id, None)
        self._bar.setVisible(shows_running)
        self._progress.setText(progress_words(situation, job if shows_running else None))
        if job is not None and shows_running:
            self._bar.setValue(round(job.progress * 1000))
            self._bar.setAccessibleDescription(percent(job.progress))

    @staticmethod
    def _draw_curve(panel: Panel, curve: Curve, empty: str) -> None:
        line = Line(curve.steps, curve.last, curve.lows, curve.highs)
        panel.show_lines([line], curve.faults, "" if curve.steps else empty)
        finite = curve.newest is None or abs(number_from_wire(curve.newest)) < float("inf")
        text = figure(curve.newest)
        panel.show_figures([text if finite else f"{text} at step {count(curve.faults[-1])}"], alert=not finite)

    def _draw_load(self) -> None:
        now = time.monotonic()
        points = [point for point in self._store.loads if now - point.at <= LOAD_SPAN_S]
        ages = [point.at - now for point in points]
        cpu = Line(ages, [_or_nan(point.cpu_pct) for point in points])
        gpu = Line(ages, [_or_nan(point.gpu_pct) for point in points])
        self._load.show_lines([cpu, gpu], (), "" if points else "The worker has told no load yet.")
        current = bool(points) and ages[-1] >= -LOAD_FRESH_S
        self._load.show_figures(_load_figures(points[-1]) if current else ("–", ""))
        oldest = max([SHORTEST_LOAD_SPAN_S, *(-age for age in ages)])
        self._load.fix_span(-oldest, 0, 60 if oldest > 120 else 15)

    @Slot()
    def _show_attempts(self) -> None:
        running = self._source.running
        self._choice.clear()
        for attempt in self._source.attempts:
            self._choice.addItem(attempt_label(attempt, running), attempt.attempt_id)
        self._choice.setCurrentIndex(self._choice.findData(self._source.chosen))
        self._choice.setVisible(self._choice.count() > 1)
        self._schedule()

    @Slot(int)
    def _on_chosen(self, index: int) -> None:
        self._source.choose(self._choice.itemData(index))

    def showEvent(self, event: QShowEvent) -> None:
        """Follow the attempt while somebody looks."""
        super().showEvent(event)
        self._wake()

    def hideEvent(self, event: QHideEvent) -> None:
        """Rest."""
        super().hideEvent(event)
        self._rest()

    def changeEvent(self, event: QEvent) -> None:
        """Rest while minimised."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.WindowStateChange and self.isVisible():
            (self._rest if self.isMinimized() else self._wake)()

    def _wake(self) -> None:
        self._source.open()
        self._clock.start()
        self._show_attempts()
        self._draw()

    def _rest(self) -> None:
        self._source.close()
        self._clock.stop()
        self._redraw.stop()


def _step_in_words(x: float) -> str:
    return f"Step {count(round(x))}"


def _seconds_in_words(x: float) -> str:
    return f"{format_duration(-x)} ago"


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _load_figures(point: LoadPoint) -> tuple[str, str]:
    cpu = "" if point.cpu_pct is None else f"CPU {point.cpu_pct:.0f} %"
    gpu = "" if point.gpu_pct is None else f"GPU {point.gpu_pct:.0f} %"
    return cpu, gpu


def _seconds_tick(x: float) -> str:
    seconds = round(-x)
    return "now" if seconds <= 0 else f"−{seconds // 60} min" if seconds % 60 == 0 else f"−{seconds} s"
