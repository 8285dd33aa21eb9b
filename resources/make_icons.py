"""Draws every bitmap from its SVG: `python resources/make_icons.py`, after an SVG in app/desktop/pictures changed."""

import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from app.desktop.presenter.status import ICON_KEYS
from app.desktop.tray.icons import APP_SIZES, MASK_SIZES, PICTURES

ICONS = Path(__file__).resolve().parent / "icons"
APP_PICTURE = PICTURES / "stoker.svg"
HICOLOR_SIZES = (16, 20, 22, 24, 32, 48, 64, 128, 256, 512)


def main() -> int:
    """Write the bitmaps of the tray, of the program and of its installers."""
    application = QGuiApplication(sys.argv)
    for key in ICON_KEYS:
        for size_px in MASK_SIZES:
            _write(PICTURES / f"{key}.svg", size_px, PICTURES / "masks" / f"{key}-{size_px}.png")
    for size_px in APP_SIZES:
        _write(APP_PICTURE, size_px, PICTURES / "app" / f"stoker-{size_px}.png")
    for size_px in HICOLOR_SIZES:
        _write(APP_PICTURE, size_px, ICONS / "hicolor" / f"{size_px}x{size_px}" / "apps" / "stoker.png")
    scalable = ICONS / "hicolor" / "scalable" / "apps"
    scalable.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(APP_PICTURE, scalable / "stoker.svg")
    _write(APP_PICTURE, 256, ICONS / "stoker.ico")
    application.quit()
    return 0


def render(svg: Path, size_px: int) -> QImage:
    """Draw one SVG file."""
    image = QImage(size_px, size_px, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(str(svg)).render(painter, QRectF(0, 0, size_px, size_px))
    painter.end()
    return image


def _write(svg: Path, size_px: int, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    render(svg, size_px).save(str(target))


if __name__ == "__main__":
    sys.exit(main())
