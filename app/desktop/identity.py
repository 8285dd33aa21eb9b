"""Tells desktop and taskbar who this program is, before its first window."""

import ctypes
import sys

from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QGuiApplication

DESKTOP_FILE = "stoker"
"""Name of the installed .desktop file, without its ending."""
APP_USER_MODEL_ID = "Stoker.Desktop"
"""The same for every version: a changed id loses the pinned icon and hides toasts."""


def claim_identity() -> None:
    """Set the names; called once, before the QApplication is made."""
    QCoreApplication.setOrganizationName("Stoker")
    QCoreApplication.setApplicationName("Stoker")
    QGuiApplication.setApplicationDisplayName("Stoker")
    QGuiApplication.setDesktopFileName(DESKTOP_FILE)
    if sys.platform == "win32":
        ctypes.windll.shell32.SetCurrentProcessExplicitAppUserModelID(APP_USER_MODEL_ID)
