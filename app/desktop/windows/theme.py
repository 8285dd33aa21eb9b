"""One look in light and dark: colours by role, a palette and a short style sheet made from them."""

from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from app.desktop.tray.icons import PICTURES

Scheme = Literal["system", "light", "dark"]
_PICTURES = PICTURES.as_posix()


@dataclass(frozen=True)
class Colours:
    """Colours by what they are for."""

    name: Literal["light", "dark"]
    ground: str
    surface: str
    line: str
    text: str
    muted: str
    accent: str
    on_accent: str
    accent_hover: str
    alert: str
    loss: str
    speed: str
    second: str


LIGHT = Colours(
    name="light",
    ground="#f6f5f3",
    surface="#ffffff",
    line="#dcd9d4",
    text="#1f1e1c",
    muted="#66635d",
    accent="#c2410c",
    on_accent="#ffffff",
    accent_hover="#a8370a",
    alert="#b42318",
    loss="#2359c7",
    speed="#0f766e",
    second="#7a3fb5",
)
DARK = Colours(
    name="dark",
    ground="#1a1a1c",
    surface="#242427",
    line="#3b3b40",
    text="#eeedeb",
    muted="#a5a29c",
    accent="#ff9747",
    on_accent="#201206",
    accent_hover="#ffab6b",
    alert="#ff8f85",
    loss="#82aaff",
    speed="#5fd0c5",
    second="#c79bf2",
)


def is_dark() -> bool:
    """Tell whether the dark colours apply now."""
    return bool(QApplication.instance().property("dark"))  # pyright: ignore[reportOptionalMemberAccess]


def colours() -> Colours:
    """Return the colours that apply now."""
    return DARK if is_dark() else LIGHT


def apply(app: QApplication, scheme: Scheme) -> None:
    """Give the program the colours of ``scheme``; "system" follows the desktop."""
    system_dark = QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark
    app.setProperty("dark", scheme == "dark" or (scheme == "system" and system_dark))
    app.setStyle("Fusion")
    app.setPalette(_palette(colours()))
    app.setStyleSheet(_style_sheet(colours()))


def _palette(colour: Colours) -> QPalette:
    palette = QPalette(QColor(colour.surface), QColor(colour.ground))
    roles = {
        QPalette.ColorRole.Window: colour.ground,
        QPalette.ColorRole.WindowText: colour.text,
        QPalette.ColorRole.Base: colour.surface,
        QPalette.ColorRole.AlternateBase: colour.ground,
        QPalette.ColorRole.Text: colour.text,
        QPalette.ColorRole.Button: colour.surface,
        QPalette.ColorRole.ButtonText: colour.text,
        QPalette.ColorRole.PlaceholderText: colour.muted,
        QPalette.ColorRole.Highlight: colour.accent,
        QPalette.ColorRole.HighlightedText: colour.on_accent,
        QPalette.ColorRole.Link: colour.accent,
        QPalette.ColorRole.ToolTipBase: colour.surface,
        QPalette.ColorRole.ToolTipText: colour.text,
    }
    for role, value in roles.items():
        palette.setColor(role, QColor(value))
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, role, QColor(colour.muted))
    return palette


def _style_sheet(colour: Colours) -> str:
    return f"""
        QLabel[role="title"] {{ font-size: 17pt; font-weight: 600; }}
        QLabel[role="heading"] {{ font-size: 11pt; font-weight: 600; }}
        QLabel[role="muted"] {{ color: {colour.muted}; }}
        QLabel[role="alert"] {{ color: {colour.alert}; }}
        QLabel[role="failure"] {{ font-size: 11pt; font-weight: 600; color: {colour.alert}; }}
        QLabel[role="figure"] {{ font-size: 14pt; font-weight: 600; }}
        QLabel[role="code"] {{ font-family: "JetBrains Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace;
            font-size: 30pt; font-weight: 600; }}
        QLabel[role="words"] {{ font-size: 11pt; font-weight: 600; }}
        QFrame[role="card"] {{ background: {colour.surface}; border: 1px solid {colour.line}; border-radius: 10px; }}
        QPushButton {{ background: {colour.surface}; border: 1px solid {colour.line}; border-radius: 7px;
            padding: 7px 14px; color: {colour.text}; }}
        QPushButton:hover {{ border-color: {colour.muted}; }}
        QPushButton:focus {{ border: 2px solid {colour.accent}; padding: 6px 13px; }}
        QPushButton:pressed {{ background: {colour.ground}; }}
        QPushButton:disabled {{ color: {colour.muted}; background: {colour.ground}; border-color: {colour.line}; }}
        QPushButton[role="primary"] {{ background: {colour.accent}; border-color: {colour.accent};
            color: {colour.on_accent}; font-weight: 600; }}
        QPushButton[role="primary"]:hover {{ background: {colour.accent_hover}; border-color: {colour.accent_hover}; }}
        QPushButton[role="primary"]:focus {{ border: 2px solid {colour.text}; }}
        QPushButton[role="primary"]:disabled {{ background: {colour.line}; border-color: {colour.line};
            color: {colour.muted}; }}
        QLineEdit, QComboBox, QDoubleSpinBox {{ background: {colour.surface}; border: 1px solid {colour.line};
            border-radius: 7px; padding: 7px 10px; color: {colour.text}; selection-background-color: {colour.accent};
            selection-color: {colour.on_accent}; }}
        QLineEdit:focus, QComboBox:focus, QDoubleSpinBox:focus {{ border: 2px solid {colour.accent};
            padding: 6px 9px; }}
        QDoubleSpinBox QLineEdit, QDoubleSpinBox QLineEdit:focus {{ background: transparent; border: none;
            padding: 0; }}
        QDoubleSpinBox::up-button, QDoubleSpinBox::down-button {{ width: 0; border: none; }}
        QLineEdit[fault="true"] {{ border: 2px solid {colour.alert}; padding: 6px 9px; }}
        QComboBox::drop-down {{ border: none; width: 26px; }}
        QComboBox::down-arrow {{ image: url("{_PICTURES}/chevron-{colour.name}.svg"); width: 12px; height: 12px; }}
        QComboBox QAbstractItemView {{ background: {colour.surface}; color: {colour.text};
            border: 1px solid {colour.line}; selection-background-color: {colour.accent};
            selection-color: {colour.on_accent}; }}
        QCheckBox, QRadioButton {{ spacing: 8px; }}
        QCheckBox::indicator, QRadioButton::indicator {{ width: 14px; height: 14px; background: {colour.surface};
            border: 1px solid {colour.muted}; }}
        QCheckBox::indicator {{ border-radius: 4px; }}
        QRadioButton::indicator {{ border-radius: 8px; }}
        QCheckBox::indicator:checked {{ background: {colour.accent}; border-color: {colour.accent};
            image: url("{_PICTURES}/check-{colour.name}.svg"); }}
        QRadioButton::indicator:checked {{ border-color: {colour.accent}; background: qradialgradient(cx: 0.5, cy: 0.5,
            radius: 0.5, fx: 0.5, fy: 0.5, stop: 0 {colour.accent}, stop: 0.55 {colour.accent},
            stop: 0.65 {colour.surface}, stop: 1 {colour.surface}); }}
        QCheckBox:focus, QRadioButton:focus {{ color: {colour.accent}; }}
        QProgressBar {{ background: {colour.line}; border: none; border-radius: 4px; min-height: 8px;
            max-height: 8px; }}
        QProgressBar::chunk {{ background: {colour.accent}; border-radius: 4px; }}
        QMenu {{ background: {colour.surface}; border: 1px solid {colour.line}; padding: 6px; color: {colour.text}; }}
        QMenu::item {{ padding: 6px 26px 6px 14px; border-radius: 5px; }}
        QMenu::item:selected {{ background: {colour.accent}; color: {colour.on_accent}; }}
        QMenu::item:disabled {{ color: {colour.muted}; background: transparent; }}
        QMenu::separator {{ height: 1px; background: {colour.line}; margin: 6px 8px; }}
        QToolTip {{ background: {colour.surface}; color: {colour.text}; border: 1px solid {colour.line};
            padding: 4px; }}
    """
