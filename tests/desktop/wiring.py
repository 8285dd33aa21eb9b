"""Client, store and supervisor wired as the desktop wires them, for tests of its parts in one process."""

from PySide6.QtCore import QObject

from app.desktop.control.client import ControlClient
from app.desktop.control.store import WorkerStore
from app.desktop.control.supervisor import Supervisor
from worker_core.machine.paths import Paths


class Wired:
    """The desktop's link to the core of a home."""

    def __init__(self, owner: QObject, paths: Paths) -> None:
        self.client = ControlClient(owner)
        self.store = WorkerStore(owner)
        self.supervisor = Supervisor(owner, paths, self.client)
        self.supervisor.link_changed.connect(self.store.set_link)
        self.client.snapshot_arrived.connect(self.store.take_snapshot)
