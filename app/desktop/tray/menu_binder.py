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
        self._actions: dict[str, QAction] = {}
        self._items: tuple[Item, ...] = ()
        self.menu.setToolTipsVisible(True)
        # Told of the entries of submenus too, because these are its children.
        self.menu.triggered.connect(self._on_triggered)
        self.menu.aboutToShow.connect(self.about_to_show)

    def update(self, items: tuple[Item, ...]) -> None:
        """Make the menu show ``items``; only what differs is touched."""
        if items != self._items:
            self._items = items
            self._apply_all(self.menu, items)

    def close(self) -> None:
        """Destroy the menu; called after the icon that shows it is gone."""
        self.menu.deleteLater()

    def _apply_all(self, menu: QMenu, items: tuple[Item, ...]) -> None:
        for item in items:
            action = self._actions.get(item.id) or self._add(menu, item)
            self._apply(item, action)
            submenu = action.menu()
            if isinstance(submenu, QMenu):
                self._apply_all(submenu, item.children)

    def _add(self, menu: QMenu, item: Item) -> QAction:
        if item.is_separator:
            action = menu.addSeparator()
        elif item.children:
            submenu = menu.addMenu(item.label)
            submenu.setToolTipsVisible(True)
            action = submenu.menuAction()
        else:
            action = menu.addAction(item.label)
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
        if not isinstance(action.menu(), QMenu):
            self.commanded.emit(action.data())
