"""Learning curves: the points of a session over all its attempts, and a picture of them."""

import math
from collections.abc import Mapping, Sequence
from io import BytesIO

from PIL import Image, ImageDraw, ImageFont

MOST_POINTS = 1_024
RETURN, EVALUATION, SUCCESS = "rollout/ep_rew_mean", "eval/mean_reward", "rollout/success_rate"
_SHOWN = (RETURN, EVALUATION, SUCCESS)
_COLOURS = {RETURN: "#1f5fb4", EVALUATION: "#b4461f", SUCCESS: "#2b7a3d"}
_NAMES = {RETURN: "return while training", EVALUATION: "return of evaluations", SUCCESS: "success rate while training"}

_WIDTH, _PANEL, _HEAD, _FOOT, _LEFT, _RIGHT = 960, 340, 66, 50, 92, 24
_FINER = 2
"""Drawn so many times larger and then reduced, which smooths the lines."""
_INK, _GREY, _GRID = "#202428", "#6a7076", "#e2e5e8"
_TICKS = 5

Point = tuple[int, float]


class Curves:
    """Points (decision, value) of each curve; of more than ``MOST_POINTS`` every second one stays."""

    def __init__(self, points: Mapping[str, Sequence[Sequence[float]]] | None = None) -> None:
        self._points: dict[str, list[Point]] = {
            name: [(int(step), float(value)) for step, value in (points or {}).get(name, ())] for name in _SHOWN
        }

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Take those of the values that have a curve; numbers that are not finite have no place on one."""
        for name, points in self._points.items():
            value = values.get(name)
            if value is None or not math.isfinite(value):
                continue
            points.append((step, float(value)))
            if len(points) > MOST_POINTS:
                del points[1:-1:2]

    def points(self) -> dict[str, list[Point]]:
        """Return all points; what :class:`Curves` can be made from again."""
        return {name: list(points) for name, points in self._points.items() if points}


def draw_curves(title: str, points: Mapping[str, Sequence[Point]], levels: Mapping[str, float]) -> bytes:
    """Return a PNG: returns over decisions with ``levels`` to compare with, and the success rate where there is one."""
    panels = [(RETURN, EVALUATION)] + ([(SUCCESS,)] if points.get(SUCCESS) else [])
    picture = _Picture(_HEAD + len(panels) * _PANEL + _FOOT * (len(panels) - 1))
    picture.text(_LEFT, 14, title[:90], size=20)
    for row, names in enumerate(panels):
        shown = {name: points[name] for name in names if points.get(name)}
        finite = {name: value for name, value in levels.items() if math.isfinite(value)} if row == 0 else {}
        _Panel(picture, _HEAD + row * (_PANEL + _FOOT), shown, finite).draw()
    return picture.png()


def ticks(low: float, high: float, about: int = _TICKS) -> list[float]:
    """Return round numbers between two bounds, roughly ``about`` of them: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


class _Picture:
    """A white sheet that is measured in points of the finished picture."""

    def __init__(self, height: int) -> None:
        self._size = (_WIDTH, height)
        self._image = Image.new("RGB", (_WIDTH * _FINER, height * _FINER), "white")
        self._draw = ImageDraw.Draw(self._image)

    def text(self, x: float, y: float, text: str, *, size: int = 13, anchor: str = "la", colour: str = _INK) -> None:
        at = (x * _FINER, y * _FINER)
        font = ImageFont.load_default(size * _FINER)
        # A white rim keeps a text readable where lines run through it.
        self._draw.text(at, text, fill=colour, font=font, anchor=anchor, stroke_width=3 * _FINER, stroke_fill="white")

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float = 1.0) -> None:
        scaled = [(x * _FINER, y * _FINER) for x, y in points]
        self._draw.line(scaled, fill=colour, width=max(1, round(width * _FINER)), joint="curve")

    def dots(self, points: Sequence[tuple[float, float]], colour: str, radius: float) -> None:
        for x, y in points:
            box = ((x - radius) * _FINER, (y - radius) * _FINER, (x + radius) * _FINER, (y + radius) * _FINER)
            self._draw.ellipse(box, fill=colour)

    def png(self) -> bytes:
        out = BytesIO()
        self._image.resize(self._size, Image.Resampling.BOX).save(out, "PNG", optimize=True)
        return out.getvalue()


class _Panel:
    """One pair of axes with its curves."""

    def __init__(
        self, picture: _Picture, top: float, curves: Mapping[str, Sequence[Point]], levels: Mapping[str, float]
    ) -> None:
        self._picture, self._curves, self._levels = picture, curves, levels
        self._top, self._bottom = top + 24.0, top + _PANEL - 44.0
        values = [value for points in curves.values() for _, value in points] + list(levels.values())
        self._low, self._high = _padded(min(values, default=0.0), max(values, default=1.0))
        self._last = float(max((step for points in curves.values() for step, _ in points), default=1)) or 1.0

    def draw(self) -> None:
        self._axes()
        self._draw_levels()
        for name, points in self._curves.items():
            places = [(self._x(step), self._y(value)) for step, value in points]
            if name != EVALUATION:
                self._picture.line(places, _COLOURS[name], 1.8)
            if name == EVALUATION or len(places) == 1:
                self._picture.dots(places, _COLOURS[name], 3.2)
        self._legend()

    def _x(self, step: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * step / self._last

    def _y(self, value: float) -> float:
        return self._bottom - (self._bottom - self._top) * (value - self._low) / (self._high - self._low)

    def _axes(self) -> None:
        for value in ticks(self._low, self._high):
            y = self._y(value)
            self._picture.line([(_LEFT, y), (_WIDTH - _RIGHT, y)], _GRID)
            self._picture.text(_LEFT - 8, y, _short(value), anchor="rm", colour=_GREY)
        for step in ticks(0.0, self._last):
            self._picture.text(self._x(step), self._bottom + 8, _short(step), anchor="ma", colour=_GREY)
        self._picture.line([(_LEFT, self._bottom), (_WIDTH - _RIGHT, self._bottom)], _GREY)
        self._picture.text((_LEFT + _WIDTH - _RIGHT) / 2, self._bottom + 26, "decisions", anchor="ma", colour=_GREY)

    def _draw_levels(self) -> None:
        for value in self._levels.values():
            y = self._y(value)
            for x in range(_LEFT, _WIDTH - _RIGHT, 12):
                self._picture.line([(x, y), (min(x + 6, _WIDTH - _RIGHT), y)], _GREY)
        taken: list[float] = []
        for name, value in self._levels.items():
            # Two levels that lie together have their names one above the other.
            place = self._y(value) - 3
            while any(abs(place - other) < 15 for other in taken):
                place -= 15
            taken.append(place)
            self._picture.text(_WIDTH - _RIGHT, place, f"{name} {_short(value)}", anchor="rs", colour=_GREY)

    def _legend(self) -> None:
        x = float(_LEFT)
        for name in self._curves:
            self._picture.line([(x, self._top - 14), (x + 18, self._top - 14)], _COLOURS[name], 3)
            self._picture.text(x + 24, self._top - 14, _NAMES[name], anchor="lm")
            x += 230


def _padded(low: float, high: float) -> tuple[float, float]:
    """Return bounds with some room around; equal values lie in the middle."""
    room = (high - low) * 0.06 or max(1.0, abs(high) * 0.1)
    return low - room, high + room


def _short(value: float) -> str:
    """Return a number as an axis shows it: 1.2k, 3M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}" if value else "0"
