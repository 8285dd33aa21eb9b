"""What the operating system is about to do to this machine: sleep, wake, end. And a moment to prepare for it.

A source tells each event from a thread of its own. Where the system lets a program ask for a delay, the source holds
one while the machine is awake and gives it up with :meth:`PowerSource.ready`; the system waits for a few seconds at
most (logind: 5 s), whatever we do.
"""

import threading
from collections.abc import Callable
from typing import Literal, Protocol

PowerEvent = Literal["sleep-coming", "woke", "end-coming"]
"""``end-coming``: the machine shuts down, or the person's session ends."""
Tell = Callable[[PowerEvent], object]
PowerState = Literal["awake", "sleeping", "shutting-down"]
"""What a scripted machine does: ``sleeping`` is told just before it sleeps."""

_EVENTS: dict[PowerState, PowerEvent] = {"awake": "woke", "sleeping": "sleep-coming", "shutting-down": "end-coming"}
_LOOK_EVERY_S = 0.1


class PowerSource(Protocol):
    """Tells what happens to the machine."""

    def start(self, tell: Tell) -> None:
        """Begin to listen; ``tell`` is called from another thread."""
        ...

    def ready(self) -> None:
        """We are prepared: what was announced may happen now."""
        ...

    def stop(self) -> None:
        """End listening, and hold nothing up any more."""
        ...


class NoPower:
    """A system that tells nothing; a jump of the clock is then the only sign of sleep."""

    def start(self, tell: Tell) -> None:
        return

    def ready(self) -> None:
        return

    def stop(self) -> None:
        return


class ScriptedPower:
    """A machine whose state a script names (see :mod:`worker_core.machine.sources`)."""

    def __init__(self, read: Callable[[], PowerState]) -> None:
        self._read = read
        self._state: PowerState = "awake"
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.held = True
        """Whether the machine would still wait for us."""

    def start(self, tell: Tell) -> None:
        self._over.clear()
        self._thread = threading.Thread(target=self._follow, args=(tell,), name="scripted power", daemon=True)
        self._thread.start()

    def ready(self) -> None:
        self.held = False

    def stop(self) -> None:
        self.held = False
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self, tell: Tell) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            state = self._read()
            if state != self._state:
                self._state, self.held = state, True
                tell(_EVENTS[state])
