"""The states differ in shape, not only in colour, at the smallest size a tray has."""

import itertools
from pathlib import Path

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from app.desktop.presenter.status import ICON_KEYS, IconKey
from app.desktop.tray.icons import PICTURES, SIZES, Ground, app_icon, draw, panel_ground, state_icon, tone

GROUNDS: dict[Ground, str] = {"light": "#f2f2f2", "dark": "#242424"}
SIZE_PX = 16
LEAST_DIFFERENCE = 0.07
"""Share of the picture that must differ clearly in grey."""


def grey_levels(key: IconKey, ground: Ground) -> list[int]:
    image = QImage(SIZE_PX, SIZE_PX, QImage.Format.Format_ARGB32)
    image.fill(QColor(GROUNDS[ground]))
    picture = draw(key, ground, SIZE_PX).toImage()
    levels: list[int] = []
    for place in range(SIZE_PX * SIZE_PX):
        x, y = place % SIZE_PX, place // SIZE_PX
        colour = picture.pixelColor(x, y)
        ground_colour = image.pixelColor(x, y)
        alpha = colour.alphaF()
        levels.append(round(_grey(colour) * alpha + _grey(ground_colour) * (1 - alpha)))
    return levels


def _grey(colour: QColor) -> float:
    return 0.299 * colour.red() + 0.587 * colour.green() + 0.114 * colour.blue()


def luminance(text: str) -> float:
    colour = QColor(text)
    shares = (colour.redF(), colour.greenF(), colour.blueF())
    parts = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in shares]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("ground", GROUNDS)
def test_every_two_states_differ_in_grey(qapp: QApplication, ground: Ground) -> None:
    levels = {key: grey_levels(key, ground) for key in ICON_KEYS}
    for one, other in itertools.combinations(ICON_KEYS, 2):
        pairs = zip(levels[one], levels[other], strict=True)
        differing = sum(abs(first - second) > 60 for first, second in pairs) / SIZE_PX**2
        assert differing >= LEAST_DIFFERENCE, (one, other, differing)


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("key", ICON_KEYS)
def test_every_tone_stands_out_from_its_ground(key: IconKey, ground: Ground) -> None:
    light, dark = sorted((luminance(tone(key, ground)), luminance(GROUNDS[ground])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 3


def test_an_icon_has_every_size(qapp: QApplication) -> None:
    assert sorted(size.width() for size in state_icon("training", "light").availableSizes()) == sorted(SIZES)
    assert not app_icon().isNull()


def test_a_desktop_with_a_dark_panel_gets_the_light_tone(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CURRENT_DESKTOP", "ubuntu:GNOME")
    assert panel_ground() == "dark"


@pytest.mark.parametrize("key", ICON_KEYS)
def test_the_bitmaps_are_those_of_the_svg_files(qapp: QApplication, key: IconKey) -> None:
    drawn = QImage(64, 64, QImage.Format.Format_ARGB32)
    drawn.fill(0)
    painter = QPainter(drawn)
    QSvgRenderer(str(PICTURES / f"{key}.svg")).render(painter, QRectF(0, 0, 64, 64))
    painter.end()
    stored = QImage(str(PICTURES / "masks" / f"{key}-64.png"))
    differing = sum(
        abs(drawn.pixelColor(x, y).alpha() - stored.pixelColor(x, y).alpha()) > 16 for x in range(64) for y in range(64)
    )
    assert differing == 0, "run resources/make_icons.py"


def test_the_pictures_of_the_installers_are_those_of_the_program() -> None:
    icons = Path(__file__).parents[4] / "resources" / "icons"
    sizes = {int(path.parent.parent.name.split("x")[0]) for path in icons.glob("hicolor/*/apps/stoker.png")}
    assert {16, 22, 24, 32, 48, 64, 128, 256} <= sizes
    assert (icons / "hicolor" / "scalable" / "apps" / "stoker.svg").read_bytes() == (
        Path(__file__).parents[4] / "app" / "desktop" / "pictures" / "stoker.svg"
    ).read_bytes()
