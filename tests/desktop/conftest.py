"""Fixtures of the black-box desktop tests: one display and one bus a test run, one home a test."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))

from tests.desktop.kit import Bus, DesktopProcess, Display, Launch, TrayHost
from tests.desktop.scripted_core import ScriptedCore

SIGNS_OF_A_FAULT = ("Traceback", "an error nobody handled", "already deleted", "QThread", "Fatal Python error")


@pytest.fixture(scope="session")
def display() -> Iterator[Display]:
    made = Display()
    yield made
    made.close()


@pytest.fixture
def bus() -> Iterator[Bus]:
    made = Bus()
    yield made
    made.close()


@pytest.fixture
def host(bus: Bus) -> Iterator[TrayHost]:
    made = TrayHost(bus)
    yield made
    made.close()


@pytest.fixture
def core(tmp_path: Path) -> Iterator[ScriptedCore]:
    made = ScriptedCore(tmp_path)
    yield made
    made.close()


@pytest.fixture
def launch(tmp_path: Path, display: Display, bus: Bus) -> Iterator[Launch]:
    """Start desktops in this test's home; all of them end with the test."""
    started: list[DesktopProcess] = []

    def start(
        *arguments: str,
        home: Path = tmp_path,
        patience_s: float | None = None,
        grace_s: float | None = None,
        detached: bool = False,
        **environment: str,
    ) -> DesktopProcess:
        started.append(
            DesktopProcess(
                home,
                display,
                bus,
                *arguments,
                patience_s=patience_s,
                grace_s=grace_s,
                detached=detached,
                **environment,
            )
        )
        return started[-1]

    yield start
    for desktop in started:
        desktop.close()
        told = [line for line in desktop.stderr.splitlines() if any(sign in line for sign in SIGNS_OF_A_FAULT)]
        assert told == [], "whatever a test does, no part of the desktop fails unseen"
