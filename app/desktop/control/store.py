"""What the desktop knows, in one place: the last snapshot, the link, and the recent load of this machine."""

import time
from collections import deque
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal, Slot

from app.desktop.presenter.situation import Link, Situation
from worker_core.control.messages import MAX_BUCKETS, Snapshot
from worker_core.wire.status import WorkerStatus


@dataclass(frozen=True)
class LoadPoint:
    """How busy the machine was at one moment (monotonic seconds)."""

    at: float
    cpu_pct: float | None
    gpu_pct: float | None


class WorkerStore(QObject):
    """The single source for tray and windows; holds no copy that could disagree with the core."""

    changed = Signal()
    """Link or snapshot changed."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._link = Link.STARTING
        self._detail = ""
        self._status: WorkerStatus | None = None
        self._arrived = 0.0
        self._loads: deque[LoadPoint] = deque(maxlen=MAX_BUCKETS)

    @property
    def situation(self) -> Situation:
        """Everything known, as of now."""
        age_s = time.monotonic() - self._arrived if self._status is not None else 0.0
        return Situation(link=self._link, detail=self._detail, status=self._status, age_s=age_s)

    @property
    def loads(self) -> tuple[LoadPoint, ...]:
        """The recent load, oldest first."""
        return tuple(self._loads)

    @Slot(object, str)
    def set_link(self, link: Link, detail: str) -> None:
        """Take the supervisor's word for the link; a new link starts without a snapshot it could be judged by."""
        if link is Link.CONNECTED:
            self._status = None
        self._link, self._detail = link, detail
        if link is not Link.CONNECTED or self._status is not None:
            self.changed.emit()

    @Slot(object)
    def take_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the truth by a newer one."""
        self._status = snapshot.status
        self._arrived = time.monotonic()
        self._remember_load(snapshot.status)
        self.changed.emit()

    def _remember_load(self, status: WorkerStatus) -> None:
        busy = [gpu.busy_pct for gpu in status.gpus if gpu.busy_pct is not None]
        if status.load.cpu_pct is None and not busy:
            return
        self._loads.append(LoadPoint(self._arrived, status.load.cpu_pct, max(busy) if busy else None))
