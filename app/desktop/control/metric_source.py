"""Feeds the live-metrics window: history of one attempt from the core, then its points as they come."""

from collections import deque

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.desktop.control.client import ControlClient
from app.desktop.control.store import WorkerStore
from app.desktop.presenter.curves import SHOWN_METRICS, Curve
from worker_core.control.messages import AttemptShown, ErrorBody, History, HistoryArgs, MetricEvent
from worker_core.wire.codec import BadMessage, Message, convert

MAX_HELD_EVENTS = 2000
RESYNC_MS = 5000


class _Attempts(Message):
    attempts: tuple[AttemptShown, ...] = ()


class MetricSource(QObject):
    """Curves of the chosen attempt. Asks for nothing while nobody looks."""

    changed = Signal()
    """Curves, chosen attempt or trouble changed."""
    attempts_changed = Signal()

    def __init__(self, parent: QObject, client: ControlClient, store: WorkerStore) -> None:
        super().__init__(parent)
        self._client = client
        self._store = store
        self._open = False
        self._live = False
        self._asked_attempts = False
        self._ran: str | None = None
        self._loading: str | None = None
        self._held: deque[MetricEvent] = deque(maxlen=MAX_HELD_EVENTS)
        self.attempts: tuple[AttemptShown, ...] = ()
        self.chosen: str | None = None
        self.follows_running = True
        """Switch to the next attempt when it starts; off after a person chose an older one."""
        self.trouble = ""
        self.curves: dict[str, Curve] = _empty_curves()
        self._resync = QTimer(self, singleShot=True, interval=RESYNC_MS)
        self._resync.timeout.connect(self._load)
        client.metric_arrived.connect(self._on_metric)
        store.changed.connect(self._on_store)

    @property
    def running(self) -> str | None:
        """The attempt that runs now."""
        status = self._store.situation.live
        return status.job.attempt_id or None if status and status.job else None

    @property
    def is_loading(self) -> bool:
        return self._loading is not None

    def open(self) -> None:
        """Begin to follow."""
        if self._open:
            return
        self._open = True
        self._live = False
        self._client.follow_metrics(True)
        self._on_store()

    def close(self) -> None:
        """Follow no longer; what is there stays for the next opening."""
        self._open = False
        self._resync.stop()
        self._client.follow_metrics(False)

    def choose(self, attempt_id: str) -> None:
        """Show an attempt because a person asked for it."""
        self.follows_running = attempt_id == self.running
        self._switch_to(attempt_id)

    @Slot()
    def _on_store(self) -> None:
        if not self._open:
            return
        live = self._store.situation.live is not None
        fresh, self._live = live and not self._live, live
        if not live:
            self.changed.emit()
            return
        if fresh:
            self._loading = None
            self._ask_attempts()
            if self.chosen is not None:
                self._load()
        running = self.running
        if running != self._ran:
            self._ran = running
            self.attempts_changed.emit()
        if running is not None and self.follows_running and running != self.chosen:
            self._switch_to(running)
        if running is not None and not self._knows(running):
            self._ask_attempts()

    def _knows(self, attempt_id: str) -> bool:
        return any(attempt.attempt_id == attempt_id for attempt in self.attempts)

    def _ask_attempts(self) -> None:
        if self._asked_attempts:
            return
        self._asked_attempts = True
        call = self._client.request("attempts")
        call.succeeded.connect(self._on_attempts)
        call.failed.connect(self._on_attempts_failed)

    @Slot(object)
    def _on_attempts(self, answer: object) -> None:
        self._asked_attempts = False
        try:
            self.attempts = convert(answer, _Attempts).attempts
        except BadMessage as error:
            self._set_trouble(f"The worker's list of attempts makes no sense: {error}.")
            return
        if self.chosen is None and self.attempts:
            self._switch_to(self.attempts[0].attempt_id)
        self.attempts_changed.emit()

    @Slot(object)
    def _on_attempts_failed(self, error: ErrorBody) -> None:
        self._asked_attempts = False
        self._set_trouble(error.text)

    def _switch_to(self, attempt_id: str) -> None:
        if attempt_id == self.chosen:
            return
        self.chosen = attempt_id
        self.curves = _empty_curves()
        self._held.clear()
        self._load()
        self.attempts_changed.emit()

    @Slot()
    def _load(self) -> None:
        if self.chosen is None:
            return
        self._loading = self.chosen
        call = self._client.request("history", HistoryArgs(attempt_id=self.chosen, names=SHOWN_METRICS))
        call.succeeded.connect(self._on_history)
        call.failed.connect(self._on_history_failed)
        self.changed.emit()

    @Slot(object)
    def _on_history(self, answer: object) -> None:
        try:
            history = convert(answer, History)
        except BadMessage as error:
            self._loading = None
            self._set_trouble(f"The worker's metric history makes no sense: {error}.")
            return
        if history.attempt_id != self._loading:
            return
        self._loading = None
        self.trouble = ""
        for name, series in history.series.items():
            if name in self.curves:
                self.curves[name].load(series)
        self._add_held()
        self.changed.emit()

    @Slot(object)
    def _on_history_failed(self, error: ErrorBody) -> None:
        """Show what comes, and ask again: without its history a curve would seem to begin now."""
        self._loading = None
        self._add_held()
        if self._open:
            self._resync.start()
        self._set_trouble(error.text)

    @Slot(object)
    def _on_metric(self, event: MetricEvent) -> None:
        if not self._open or event.attempt_id != self.chosen:
            return
        if event.lost and not self._resync.isActive():
            self._resync.start()
        if self._loading is not None:
            self._held.append(event)
            return
        self._add(event)
        self.changed.emit()

    def _add_held(self) -> None:
        held, self._held = self._held, deque(maxlen=MAX_HELD_EVENTS)
        for event in held:
            self._add(event)

    def _add(self, event: MetricEvent) -> None:
        for name, value in event.values.items():
            if name in self.curves:
                self.curves[name].add(event.step, value)

    def _set_trouble(self, text: str) -> None:
        self.trouble = text
        self.changed.emit()


def _empty_curves() -> dict[str, Curve]:
    return {name: Curve() for name in SHOWN_METRICS}
