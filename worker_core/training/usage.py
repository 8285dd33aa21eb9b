"""What an attempt used: time, processor time, memory."""

import sys
import time

from worker_core.wire.frames import Usage


class UsageMeter:
    """Counts from its making on."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.steps = 0

    def read(self) -> Usage:
        """Return what was used so far."""
        cpu_seconds, peak_bytes = time.process_time(), 0
        if sys.platform != "win32":
            import resource

            own = resource.getrusage(resource.RUSAGE_SELF)
            children = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_seconds += children.ru_utime + children.ru_stime
            # Linux counts in KiB, macOS in bytes.
            peak_bytes = own.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return Usage(
            seconds=time.monotonic() - self._started,
            cpu_seconds=cpu_seconds,
            peak_rss_bytes=peak_bytes,
            steps=self.steps,
        )
