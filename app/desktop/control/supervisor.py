"""Finds the core, or starts it, and stays with it; the core never depends on the desktop.

A core that left on purpose took ``control.json`` with it and is not started again unasked. One that was killed
left the file behind: it is started again, because somebody wants this machine to train.
"""

import logging
import subprocess
import time
from collections import deque

from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot

from app.desktop.control.client import ControlClient
from app.desktop.presenter.situation import Link
from worker_core.control.endpoint import BadEndpoint, endpoint_alive, read_endpoint
from worker_core.control.messages import Endpoint, Welcome
from worker_core.machine.paths import Paths
from worker_core.machine.spawn import spawn, stoker_command

START_DEADLINE_S = 15.0
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
MAX_STARTS = 5
STARTS_WINDOW_S = 600.0
ANOTHER_RUNS = 4

log = logging.getLogger(__name__)


class Supervisor(QObject):
    """Keeps the control client connected; ``link_changed`` carries a :class:`Link` and a sentence."""

    link_changed = Signal(object, str)

    def __init__(self, parent: QObject, paths: Paths, client: ControlClient) -> None:
        super().__init__(parent)
        self._paths = paths
        self._client = client
        self._process: subprocess.Popen[bytes] | None = None
        self._starts: deque[float] = deque(maxlen=MAX_STARTS)
        self._deadline = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._may_start = True
        self._gave_up = False
        self._trying: Endpoint | None = None
        self._refused_token = ""
        self._told: tuple[Link, str] | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.setTimerType(Qt.TimerType.CoarseTimer)
        self._timer.timeout.connect(self._look)
        client.welcomed.connect(self._on_welcome)
        client.dropped.connect(self._on_drop)

    def start(self) -> None:
        """Look for the core; start it when there is none."""
        self._tell(Link.STARTING)
        self._timer.start(0)

    @Slot()
    def start_again(self) -> None:
        """Start the core because a person asked for it."""
        self._may_start = True
        self._gave_up = False
        self._starts.clear()
        self._deadline = 0.0
        self._pause_s = FIRST_PAUSE_S
        self.start()

    def close(self) -> None:
        """Let go of the core without a word to it."""
        self._timer.stop()
        self._client.close()

    @Slot()
    def _look(self) -> None:
        try:
            endpoint = read_endpoint(self._paths)
        except BadEndpoint as error:
            self._tell(Link.FAILED, f"{error}.")
            self._again()
            return
        if endpoint is not None and self._may_answer(endpoint):
            self._trying = endpoint
            self._client.connect_to(endpoint)
        elif self._gave_up:
            self._again()
        elif endpoint is None and not self._may_start:
            self._tell(Link.ENDED)
            self._again()
        else:
            self._ensure_starting()

    def _may_answer(self, endpoint: Endpoint) -> bool:
        """Tell whether a connection is worth a try: one that failed before is, while its process lives."""
        return endpoint.token != self._refused_token or endpoint_alive(endpoint)

    def _ensure_starting(self) -> None:
        """Start the core unless a start is under way, then look again."""
        if self._deadline == 0.0:
            self._spawn()
        elif failure := self._start_failure():
            self._deadline = 0.0
            self._gave_up = True
            self._tell(Link.FAILED, failure)
            self._again()
            return
        self._timer.start(int(FIRST_PAUSE_S * 1000))

    def _spawn(self) -> None:
        now = time.monotonic()
        if len(self._starts) == MAX_STARTS and now - self._starts[0] < STARTS_WINDOW_S:
            self._deadline = now
            return
        self._starts.append(now)
        self._deadline = now + START_DEADLINE_S
        self._tell(Link.STARTING)
        log.info("Starting the worker.")
        try:
            self._process = spawn(stoker_command("run", "--started-by", "desktop"))
        except OSError as error:
            log.error("The worker could not be started: %s", error)
            self._deadline = now

    def _start_failure(self) -> str | None:
        """Return why the start under way has failed, or None while there is hope."""
        code = self._process.poll() if self._process else None
        where = f"Its log is in {self._paths.logs}."
        if code is not None and code != ANOTHER_RUNS:
            return f"The worker ended at once (exit code {code}). Run “stoker run” to see why. {where}"
        if time.monotonic() < self._deadline:
            return None
        if len(self._starts) == MAX_STARTS:
            return f"The worker ended {MAX_STARTS} times in a short time. {where}"
        return f"The worker did not answer within {START_DEADLINE_S:.0f} s. {where}"

    @Slot(object)
    def _on_welcome(self, welcome: Welcome) -> None:
        log.info("Connected to the worker, process %d.", welcome.pid)
        self._may_start = self._gave_up = False
        self._deadline = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._tell(Link.CONNECTED)

    @Slot(str)
    def _on_drop(self, reason: str) -> None:
        log.info("The link to the worker ended: %s.", reason)
        self._refused_token = self._trying.token if self._trying is not None else ""
        if reason == "version":
            self._tell(Link.INCOMPATIBLE, "The running worker has another version than this window. Restart both.")
        elif reason in ("silent", "garbage"):
            self._tell(Link.SILENT)
        elif self._told is not None and self._told[0] is Link.CONNECTED:
            self._tell(Link.STARTING)
        self._again()

    def _again(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            self._process = None
        self._timer.start(int(self._pause_s * 1000))
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _tell(self, link: Link, detail: str = "") -> None:
        if self._told != (link, detail):
            self._told = (link, detail)
            self.link_changed.emit(link, detail)
