"""Draws the bitmaps of the program's icon from its SVG: `python resources/make_icons.py`, after the SVG changed."""

import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "app" / "desktop" / "pictures" / "stoker.svg"
SIZES = (16, 20, 22, 24, 32, 48, 64, 128, 256, 512)


def main() -> int:
    """Write icons/hicolor, the icon of Windows and the source of the macOS icon set."""
    application = QGuiApplication(sys.argv)
    hicolor = HERE / "icons" / "hicolor"
    for size_px in SIZES:
        target = hicolor / f"{size_px}x{size_px}" / "apps" / "stoker.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        _draw(size_px).save(str(target))
    scalable = hicolor / "scalable" / "apps"
    scalable.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SOURCE, scalable / "stoker.svg")
    _draw(256).save(str(HERE / "icons" / "stoker.ico"))
    application.quit()
    return 0


def _draw(size_px: int) -> QImage:
    image = QImage(size_px, size_px, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(str(SOURCE)).render(painter, QRectF(0, 0, size_px, size_px))
    painter.end()
    return image


if __name__ == "__main__":
    sys.exit(main())
