"""One panel of the live-metrics window, drawn by pyqtgraph. Imported only when that window first opens."""
# pyqtgraph has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUntypedBaseClass=false

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

import numpy as np
import pyqtgraph as pg  # pyright: ignore[reportMissingTypeStubs]
from PySide6.QtCore import QEvent, QPointF, Qt, Slot
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.desktop.presenter.wording import figure
from app.desktop.windows.parts import label
from app.desktop.windows.theme import Colours, colours

FEW_POINTS = 150
STRONG_PEN = 2


@dataclass(frozen=True)
class Line:
    """One line to draw: x, the band from low to high, and the value in it."""

    xs: Sequence[float]
    values: Sequence[float]
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()


class ShortAxis(pg.AxisItem):
    """An axis whose numbers stay short: 20k, 1.2M."""

    def __init__(self, side: str, in_words: Callable[[float], str]) -> None:
        super().__init__(side)
        self.in_words = in_words

    def tickStrings(self, values, scale, spacing) -> list[str]:
        """Return the texts at the ticks."""
        return [self.in_words(value) for value in values]


def short_number(value: float) -> str:
    """Return a number in at most five characters or so."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.4g}{unit}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


class Panel(QFrame):
    """A titled plot with its newest value; the pointer reads values, the wheel zooms, a double click shows all."""

    def __init__(
        self,
        title: str,
        colour_of: Sequence[Callable[[Colours], str]],
        x_in_words: Callable[[float], str],
        tick: Callable[[float], str] = short_number,
    ) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self._title = title
        self._colour_of = tuple(colour_of)
        self._x_in_words = x_in_words
        self._lines: tuple[Line, ...] = ()
        self._shown: tuple[tuple[str, ...], bool] = ((), False)
        self._build(title, tick)
        self._curves = [self._plot.plot(antialias=True) for _ in self._colour_of]
        self._low, self._high = pg.PlotCurveItem(), pg.PlotCurveItem()
        self._band = pg.FillBetweenItem(self._low, self._high)
        self._band.setZValue(-10)
        self._plot.addItem(self._band)
        self._faults = pg.VTickGroup(yrange=[0, 1])
        self._plot.addItem(self._faults)
        self.recolour()

    def _build(self, title: str, tick: Callable[[float], str]) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 12, 8)
        layout.setSpacing(4)
        head = QHBoxLayout()
        head.addWidget(label(title, "heading"))
        head.addStretch()
        self._reading = label(role="muted")
        head.addWidget(self._reading)
        layout.addLayout(head)
        row = QHBoxLayout()
        row.setSpacing(18)
        self._figures = [label("–" if position == 0 else "", "figure") for position in range(len(self._colour_of))]
        for figure_label in self._figures:
            row.addWidget(figure_label)
        row.addStretch()
        layout.addLayout(row)
        axes = {"bottom": ShortAxis("bottom", tick), "left": ShortAxis("left", short_number)}
        self._plot = pg.PlotWidget(axisItems=axes, enableMenu=False)
        self._view: Any = cast(Any, self._plot.getPlotItem()).getViewBox()
        self._plot.hideButtons()
        self._plot.setMouseEnabled(x=True, y=False)
        self._plot.setFrameShape(QFrame.Shape.NoFrame)
        self._plot.setAccessibleName(title)
        self._plot.setMinimumHeight(130)
        self._view.setDefaultPadding(0.02)
        self._plot.getAxis("left").setWidth(48)
        cast(Any, self._plot.scene()).sigMouseMoved.connect(self._on_pointer)
        self._plot.viewport().installEventFilter(self)
        layout.addWidget(self._plot, 1)
        self._empty = QLabel(self._plot)
        self._empty.setProperty("role", "muted")
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setWordWrap(True)
        self._empty.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def fix_range(self, low: float, high: float) -> None:
        """Keep the vertical axis as it is, for values with natural ends."""
        self._view.setYRange(low, high, padding=0.06)

    def fix_span(self, low: float, high: float, ticks: float) -> None:
        """Set the ends of the horizontal axis and the distance of its ticks, for a sliding window of time."""
        self._view.setXRange(low, high, padding=0.05)
        self._plot.getAxis("bottom").setTickSpacing(ticks, ticks)

    def show_lines(self, lines: Sequence[Line], faults: Sequence[float], empty: str) -> None:
        """Draw lines; where there is nothing to draw say ``empty`` in words."""
        self._lines = tuple(lines)
        for curve, line in zip(self._curves, self._lines, strict=True):
            self._weigh(curve, len(line.xs))
            curve.setData(np.asarray(line.xs, dtype=float), np.asarray(line.values, dtype=float), connect="finite")
        first = self._lines[0]
        band_xs = np.asarray(first.xs[: len(first.lows)], dtype=float)
        self._low.setData(band_xs, _filled(first.lows))
        self._high.setData(band_xs, _filled(first.highs))
        self._band.setVisible(len(first.lows) > 1)
        self._faults.setXVals(list(faults))
        self._empty.setText(empty)
        self._empty.setVisible(bool(empty))
        for name in ("bottom", "left"):
            self._plot.getAxis(name).setStyle(showValues=not empty)

    def _weigh(self, curve: Any, points: int) -> None:
        """Draw few points with a stronger pen; a wide pen over many points is what makes plotting slow."""
        width = STRONG_PEN if points <= FEW_POINTS else 1
        if curve.opts["pen"].width() != width:
            curve.setPen(pg.mkPen(curve.opts["pen"].color(), width=width))

    def show_figures(self, texts: Sequence[str], alert: bool = False) -> None:
        """Show the newest value of each line; several of them in the colours of their lines."""
        if self._shown == (tuple(texts), alert):
            return
        self._shown = (tuple(texts), alert)
        for figure_label, text in zip(self._figures, texts, strict=True):
            figure_label.setText(text)
        self._colour_figures()
        self._plot.setAccessibleDescription(f"{self._title}: {', '.join(text for text in texts if text)}")

    def _colour_figures(self) -> None:
        colour = colours()
        for figure_label, colour_of in zip(self._figures, self._colour_of, strict=True):
            own = colour_of(colour) if len(self._colour_of) > 1 else colour.text
            figure_label.setStyleSheet(f"color: {colour.alert if self._shown[1] else own};")

    def recolour(self) -> None:
        """Take the colours that apply now."""
        colour = colours()
        self._plot.setBackground(colour.surface)
        for curve, colour_of in zip(self._curves, self._colour_of, strict=True):
            curve.setPen(pg.mkPen(colour_of(colour), width=1))
        band = QColor(self._colour_of[0](colour))
        band.setAlpha(70)
        self._band.setBrush(pg.mkBrush(band))
        self._faults.setPen(pg.mkPen(colour.alert, width=1))
        for name in ("bottom", "left"):
            axis = self._plot.getAxis(name)
            axis.setPen(pg.mkPen(colour.line))
            axis.setTextPen(pg.mkPen(colour.muted))
        self._colour_figures()
        self._plot.showGrid(x=False, y=True, alpha=0.15)

    def eventFilter(self, watched: QWidget, event: QEvent) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Show all on a double click, forget the reading when the pointer leaves, keep the words in the middle."""
        if event.type() is QEvent.Type.MouseButtonDblClick and isinstance(event, QMouseEvent):
            self._plot.enableAutoRange(axis="x")
            return True
        if event.type() is QEvent.Type.Leave:
            self._reading.setText("")
        if event.type() is QEvent.Type.Resize:
            self._empty.setGeometry(self._plot.rect())
        return super().eventFilter(watched, event)

    @Slot(object)
    def _on_pointer(self, position: QPointF) -> None:
        x = self._view.mapSceneToView(position).x()
        readings = [reading for line in self._lines if (reading := _read_at(line, x)) is not None]
        if readings:
            values = " / ".join(figure(value) if isfinite(value) else "NaN" for _, value in readings)
            self._reading.setText(f"{self._x_in_words(readings[0][0])}: {values}")


def _read_at(line: Line, x: float) -> tuple[float, float] | None:
    if not line.xs:
        return None
    at = max(0, bisect_right(line.xs, x) - 1)
    return line.xs[at], line.values[at]


def _filled(values: Sequence[float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return values with each gap closed by its neighbour, because a band cannot be drawn around a gap."""
    array = np.asarray(values, dtype=float)
    known = np.isfinite(array)
    if known.all() or not known.any():
        return np.nan_to_num(array)
    places = np.arange(len(array))
    return np.interp(places, places[known], array[known])
