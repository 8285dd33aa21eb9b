"""The pipe to the core: frames out, acknowledgements and orders in.

A frame counts only when the core has acknowledged it, which it does after its journal's commit. At most ``WINDOW``
frames are out unacknowledged; then the job waits, so that neither side needs unbounded memory.
"""

import os
import sys
import threading
import time

from worker_core.training.session_log import SessionLog
from worker_core.wire.codec import BadMessage
from worker_core.wire.frames import ArtifactReady, Frame, FrameBody, FrameSplitter, Order, pack, unpack_order

WINDOW = 256
_READ_BYTES = 1 << 16
_LOOK_S = 1.0
_LEAVING_SHARE = 0.2
"""Share of a grace that is kept for leaving; work that is not done before it ends where it stands."""


class Channel:
    """Frames to the core and orders from it; a thread reads. Any thread may send: frames stay whole and in order."""

    def __init__(self, frames_fd: int, orders_fd: int, *, grace_s: float = 30.0) -> None:
        self.grace_s = grace_s
        """How long after the core is gone, or after SIGTERM, the job may still work on its checkpoint."""
        self._frames_fd = frames_fd
        self._orders_fd = orders_fd
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._sent = 0
        self._unheard: dict[int, ArtifactReady] = {}
        self._log: SessionLog | None = None
        self._acked = 0
        self._gone = False
        self._checkpoint_wanted = False
        self._leave_by: float | None = None
        self._leave_grace_s = 0.0
        threading.Thread(target=self._read_orders, name="orders", daemon=True).start()

    @property
    def gone(self) -> bool:
        """Whether the core has closed the pipe: nothing sent from now on is heard."""
        return self._gone

    @property
    def leave_by(self) -> float | None:
        """When the job must have left (``time.monotonic``), or None while it may stay."""
        return self._leave_by

    @property
    def work_until(self) -> float | None:
        """When work must end even without a checkpoint, or None while the job may stay."""
        return None if self._leave_by is None else self._leave_by - _LEAVING_SHARE * self._leave_grace_s

    @property
    def is_sending(self) -> bool:
        """Whether somebody is sending now, or waits for the core to make room."""
        return self._sending.locked()

    def record_in(self, log: SessionLog) -> None:
        """Write into the session log from now on what is sent, before it is sent."""
        with self._sending:
            self._log = log

    def end_record(self) -> SessionLog | None:
        """Close the session log, if there is one, and return it: nothing is added to it any more."""
        with self._sending:
            log, self._log = self._log, None
        if log is not None:
            log.close()
        return log

    def send(self, body: FrameBody) -> int:
        """Send one frame and return its id; waits while the window is full."""
        with self._sending:  # over number and writing: an acknowledged frame stands for all before it
            if self._log is not None:
                self._log.add(body)
            with self._changed:
                while not self._changed.wait_for(self._may_send, timeout=_LOOK_S):
                    pass  # SIGTERM changes leave_by without a notice, so the wait looks up now and then
                self._sent += 1
                frame_id = self._sent
                if isinstance(body, ArtifactReady):
                    self._unheard[frame_id] = body
            if not self._gone:
                self._write(pack(Frame(id=frame_id, body=body)))
        return frame_id

    def is_acked(self, frame_id: int) -> bool:
        """Tell whether the core holds this frame in its journal."""
        return self._acked >= frame_id

    def unheard_files(self) -> tuple[ArtifactReady, ...]:
        """Return the files that were announced and not acknowledged yet; at most ``WINDOW`` of them while it hears."""
        with self._changed:
            return tuple(self._unheard.values())[-WINDOW:]

    def flush(self, timeout_s: float) -> bool:
        """Wait until every frame is acknowledged; False when that did not happen in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._gone or self._acked >= self._sent, timeout=timeout_s)
        return self._acked >= self._sent

    def take_checkpoint_order(self) -> bool:
        """Return whether a checkpoint was ordered since the last call."""
        with self._changed:
            wanted, self._checkpoint_wanted = self._checkpoint_wanted, False
        return wanted

    def leave_in(self, grace_s: float) -> None:
        """Note that the job must have left in ``grace_s`` seconds; an earlier date stays."""
        by = time.monotonic() + grace_s
        if self._leave_by is None or by < self._leave_by:
            self._leave_grace_s, self._leave_by = grace_s, by

    def _may_send(self) -> bool:
        # A job that must leave does not wait for a core that cannot journal.
        return self._gone or self._leave_by is not None or self._sent - self._acked < WINDOW

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._frames_fd, view) :]
        except OSError:
            # The reader of the pipe is gone; the orders pipe says the same and ends the job.
            self._core_is_gone()

    def _read_orders(self) -> None:
        splitter = FrameSplitter()
        try:
            while data := self._read():
                for payload in splitter.feed(data):
                    self._obey(unpack_order(payload))
        except (OSError, BadMessage) as error:
            print(f"orders from the core cannot be read: {error}", file=sys.stderr)  # noqa: T201
        finally:
            # Whatever happened: a job that hears nothing any more must not wait for an answer.
            self._core_is_gone()

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._orders_fd, _READ_BYTES)
            except MemoryError:
                time.sleep(_LOOK_S)  # the job's own code has taken all it may have; nothing was read yet

    def _obey(self, order: Order) -> None:
        with self._changed:
            if order.ack is not None:
                self._acked = max(self._acked, order.ack)
                self._unheard = {number: file for number, file in self._unheard.items() if number > self._acked}
            if order.do == "checkpoint":
                self._checkpoint_wanted = True
            if order.do == "stop":
                self.leave_in(self.grace_s if order.grace_s is None else order.grace_s)
            self._changed.notify_all()

    def _core_is_gone(self) -> None:
        with self._changed:
            self._gone = True
            self.leave_in(self.grace_s)
            self._changed.notify_all()


def open_descriptor(value: int, *, write: bool) -> int:
    """Return the file descriptor for an inherited one; on Windows ``value`` is a handle."""
    if sys.platform == "win32":
        import msvcrt

        value = msvcrt.open_osfhandle(value, os.O_WRONLY if write else os.O_RDONLY)
    # Nothing the job starts may hold the pipes open after it has ended.
    os.set_inheritable(value, False)
    return value
