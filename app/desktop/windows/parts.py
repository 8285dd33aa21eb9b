"""Small building blocks of the windows: labels by role, cards, buttons that carry a command."""

from functools import partial

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QVBoxLayout, QWidget

from app.desktop.tray.icons import app_icon

GAP = 12
MARGIN = 22


def label(text: str = "", role: str = "", *, wrap: bool = False, selectable: bool = False) -> QLabel:
    """Return a label that shows plain text, never markup from elsewhere."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setProperty("role", role)
    made.setWordWrap(wrap)
    if selectable:
        made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return made


def button(text: str, *, primary: bool = False, hint: str = "") -> QPushButton:
    """Return a button; ``primary`` marks the one a person most likely wants."""
    made = QPushButton(text)
    made.setAutoDefault(False)
    made.setToolTip(hint)
    if primary:
        made.setProperty("role", "primary")
        made.setDefault(True)
    return made


def card(parent: QWidget | None = None) -> tuple[QFrame, QVBoxLayout]:
    """Return a framed surface and its layout."""
    frame = QFrame(parent)
    frame.setProperty("role", "card")
    layout = QVBoxLayout(frame)
    layout.setContentsMargins(16, 14, 16, 14)
    layout.setSpacing(8)
    return frame, layout


def bring_up(window: QWidget) -> None:
    """Show a window in front of the others."""
    window.setWindowIcon(app_icon())
    window.showNormal() if window.isMinimized() else window.show()
    window.raise_()
    window.activateWindow()


def hug(window: QWidget) -> None:
    """Make a window as high as its content needs at its width, once its parts know how high they are."""
    QTimer.singleShot(0, window, partial(_resize, window))


def _resize(window: QWidget) -> None:
    layout = window.layout()
    if layout is None or not window.isVisible():
        return
    layout.activate()
    width = max(window.width(), window.minimumWidth(), layout.minimumSize().width())
    height = layout.totalHeightForWidth(width) if layout.hasHeightForWidth() else layout.totalSizeHint().height()
    window.resize(width, max(height, window.minimumHeight()))


def restyle(widget: QWidget) -> None:
    """Make a changed property show in the style."""
    widget.style().unpolish(widget)
    widget.style().polish(widget)
