"""Ctrl-C and requests to end from outside, for commands that must take something back before they leave."""

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | signal.Handlers


@contextmanager
def interrupts() -> Generator[None]:
    """Let a request to end from outside (TERM, hang-up) end the story as Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    with handled(interrupt, "SIGTERM", "SIGHUP"):
        yield


@contextmanager
def handled(handler: Handler, *names: str) -> Generator[None]:
    """Let ``handler`` answer these signals, where the system has them."""
    wanted = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, handler) for number in wanted}
    try:
        yield
    finally:
        for number, kept in before.items():
            signal.signal(number, kept)
