"""The worker's state as a picture: one shape per state, in a tone for light and one for dark ground.

The shape carries the meaning; colour only repeats it, so that grey vision loses nothing.
The bitmaps are drawn from the SVG files beside them (resources/make_icons.py): a tray that rests needs no SVG reader.
"""

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QIcon, QPainter, QPixmap

from app.desktop.presenter.status import IconKey

Ground = Literal["light", "dark"]
SIZES: tuple[int, ...] = (16, 20, 22, 24, 32, 48, 64)
MASK_SIZES: tuple[int, ...] = (*SIZES, 128)
APP_SIZES: tuple[int, ...] = (16, 32, 48, 64, 128, 256)
PICTURES = Path(__file__).resolve().parent.parent / "pictures"

_NEUTRAL: dict[Ground, str] = {"light": "#26262a", "dark": "#f4f4f5"}
_FLAME: dict[Ground, str] = {"light": "#c2410c", "dark": "#ffa04d"}
_ALERT: dict[Ground, str] = {"light": "#b42318", "dark": "#ff8f85"}
_DARK_PANELS = ("gnome", "unity", "pop", "x-cinnamon")


def tone(key: IconKey, ground: Ground) -> str:
    """Return the colour of a state's shape on a ground."""
    return {"training": _FLAME, "problem": _ALERT}.get(key, _NEUTRAL)[ground]


def draw(key: IconKey, ground: Ground, size_px: int) -> QPixmap:
    """Draw one picture: the shape of the nearest larger bitmap in the tone of its ground."""
    bitmap = next((size for size in MASK_SIZES if size >= size_px), MASK_SIZES[-1])
    pixmap = QPixmap(str(PICTURES / "masks" / f"{key}-{bitmap}.png"))
    if bitmap != size_px:
        smooth = Qt.TransformationMode.SmoothTransformation
        pixmap = pixmap.scaled(size_px, size_px, Qt.AspectRatioMode.KeepAspectRatio, smooth)
    painter = QPainter(pixmap)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceIn)
    painter.fillRect(pixmap.rect(), QColor(tone(key, ground)))
    painter.end()
    return pixmap


@lru_cache(maxsize=32)
def state_icon(key: IconKey, ground: Ground) -> QIcon:
    """Return the icon of a state in all sizes a tray asks for; on macOS a template that the system tints."""
    icon = QIcon()
    template = sys.platform == "darwin"
    for size_px in SIZES:
        icon.addPixmap(draw(key, "light" if template else ground, size_px))
    icon.setIsMask(template)
    return icon


@lru_cache(maxsize=1)
def app_icon() -> QIcon:
    """Return the icon of the program."""
    icon = QIcon()
    for size_px in APP_SIZES:
        icon.addFile(str(PICTURES / "app" / f"stoker-{size_px}.png"))
    return icon


def panel_ground() -> Ground:
    """Tell the ground a tray icon stands on: some desktops keep a dark panel whatever the colour scheme."""
    desktops = os.environ.get("XDG_CURRENT_DESKTOP", "").lower().split(":")
    if any(desktop in _DARK_PANELS for desktop in desktops):
        return "dark"
    return "dark" if QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark else "light"
