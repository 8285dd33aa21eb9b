"""What holds for all tests."""

import signal
import time
from collections.abc import Iterator

import pytest

# Who starts the tests in the background may leave Ctrl-C ignored, and every process started here would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place with summer time, whatever the machine's own is."""
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()
