"""Carries out what a person chose in the tray menu or the status window."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.desktop.control.client import ControlClient
from app.desktop.control.store import WorkerStore
from app.desktop.presenter.answers import UNPAIRED_HERE_ONLY
from app.desktop.presenter.giving_back import CHOICE_IDS, until
from app.desktop.presenter.updating import how_to_update
from app.desktop.views import VIEWS
from worker_core.control.messages import ErrorBody, GiveBackArgs, ModeArgs
from worker_core.wire.vocabulary import Mode

UNPAIR_TIMEOUT_S = 20.0


class Commands(QObject):
    """Knows which command asks the core for what, and which opens a window of ours."""

    window_wanted = Signal(str)
    """One of :data:`app.desktop.views.VIEWS`."""
    page_wanted = Signal(str)
    """An address for the browser."""
    unpair_asked = Signal()
    start_asked = Signal()
    quit_asked = Signal()
    refused = Signal(str, str)
    """A headline and a sentence for a request that did not work."""

    partly_done = Signal(str, str)
    """The same for one that worked in part."""

    def __init__(self, parent: QObject, client: ControlClient, store: WorkerStore) -> None:
        super().__init__(parent)
        self._client = client
        self._store = store
        self._act: dict[str, Callable[[], None]] = {
            **{f"give-back:{choice}": partial(self._give_back, choice) for choice in CHOICE_IDS},
            "drain": self._drain,
            "stop": self._stop,
            "resume": self._resume,
            "console": self._open_console,
            "renew": self._open_renewal,
            "update": self._tell_update,
            "unpair": self.unpair_asked.emit,
            "start": self.start_asked.emit,
            "quit": self.quit_asked.emit,
        }

    @Slot(str)
    def give(self, command: str) -> None:
        """Carry out one command."""
        act = self._act.get(command)
        if act is not None:
            act()
        else:
            self.window_wanted.emit(command if command in VIEWS else "status")

    def unpair(self) -> None:
        """Unpair, after the person said yes."""
        call = self._client.request("unpair", timeout_s=UNPAIR_TIMEOUT_S)
        call.succeeded.connect(self._on_unpaired)
        call.failed.connect(self._on_unpair_failed)

    def _give_back(self, choice: str) -> None:
        args = GiveBackArgs(until=until(choice, datetime.now()))
        self._client.request("give-back", args).failed.connect(self._on_mode_failed)

    def _drain(self) -> None:
        self._set_mode("drain")

    def _stop(self) -> None:
        self._set_mode("stop")

    def _resume(self) -> None:
        self._set_mode("run")

    def _set_mode(self, mode: Mode) -> None:
        self._client.request("mode", ModeArgs(mode=mode)).failed.connect(self._on_mode_failed)

    def _open_console(self) -> None:
        self._open_page("")

    def _open_renewal(self) -> None:
        """Open this worker's card in the console, which has the button."""
        status = self._store.situation.live
        worker = status.worker if status is not None else None
        self._open_page(f"/workers#{worker.id}" if worker is not None else "")

    def _open_page(self, place: str) -> None:
        status = self._store.situation.live
        if status is not None and status.coordinator:
            self.page_wanted.emit(status.coordinator.rstrip("/") + place)

    def _tell_update(self) -> None:
        status = self._store.situation.live
        if status is not None and status.update is not None:
            self.partly_done.emit(*how_to_update(status))

    @Slot(object)
    def _on_mode_failed(self, error: ErrorBody) -> None:
        self.refused.emit("That did not work", error.text)

    @Slot(object)
    def _on_unpaired(self, answer: object) -> None:
        """Say when the coordinator still lists this worker, because it could not be told."""
        if answer == {"revoked_on_coordinator": False}:
            self.partly_done.emit(*UNPAIRED_HERE_ONLY)

    @Slot(object)
    def _on_unpair_failed(self, error: ErrorBody) -> None:
        self.refused.emit("This worker was not unpaired", error.text)
