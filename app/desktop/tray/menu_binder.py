"""Puts a menu model onto one QMenu that lives as long as the program: its actions change, the menu never does."""

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from app.desktop.presenter.menu import Item


class MenuBinder(QObject):
    """Holds the tray's menu."""

    commanded = Signal(str)
    """A person chose the command with this id."""
    about_to_show = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.menu = QMenu()
        self.menu.setToolTipsVisible(True)
        self._actions: dict[str, QAction] = {}
        self._items: tuple[Item, ...] = ()
        self.menu.triggered.connect(self._on_triggered)
        self.menu.aboutToShow.connect(self.about_to_show)

    def update(self, items: tuple[Item, ...]) -> None:
        """Make the menu show ``items``; only what differs is touched."""
        if items == self._items:
            return
        self._items = items
        for item in items:
            self._apply(item, self._actions.get(item.id) or self._add(item))

    def close(self) -> None:
        """Destroy the menu; called after the icon that shows it is gone."""
        self.menu.deleteLater()

    def _add(self, item: Item) -> QAction:
        action = self.menu.addSeparator() if item.is_separator else self.menu.addAction(item.label)
        action.setData(item.id)
        self._actions[item.id] = action
        return action

    @staticmethod
    def _apply(item: Item, action: QAction) -> None:
        if action.text() != item.label:
            action.setText(item.label)
        if action.isEnabled() != item.enabled:
            action.setEnabled(item.enabled)
        if action.isVisible() != item.visible:
            action.setVisible(item.visible)
        if action.toolTip() != item.hint:
            action.setToolTip(item.hint)

    @Slot(QAction)
    def _on_triggered(self, action: QAction) -> None:
        self.commanded.emit(action.data())
