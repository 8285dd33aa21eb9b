"""What the operating system is about to do: heard from a logind on a real bus, or from a script."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_logind import FakeLogind, private_bus

from worker_core.machine.power import PowerEvent
from worker_core.machine.power_logind import LogindPower
from worker_core.machine.sources import SETTING, find_sources


def until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


def test_sleep_waits_until_we_are_ready_and_the_next_one_too(logind: FakeLogind) -> None:
    power, told = LogindPower(), list[PowerEvent]()
    power.start(told.append)
    until(lambda: logind.held() == 1)
    assert logind.asked[0][0] == "sleep:shutdown"
    assert logind.asked[0][3] == "delay"
    logind.announce("PrepareForSleep", True)
    until(lambda: told == ["sleep-coming"])
    assert logind.held() == 1
    power.ready()
    assert logind.held() == 0
    logind.announce("PrepareForSleep", False)
    until(lambda: told == ["sleep-coming", "woke"])
    until(lambda: logind.held() == 1)
    logind.announce("PrepareForShutdown", True)
    until(lambda: told[-1] == "end-coming")
    power.stop()
    assert logind.held() == 0


def test_a_strangers_word_on_the_bus_counts_for_nothing(logind: FakeLogind) -> None:
    power, told = LogindPower(), list[PowerEvent]()
    power.start(told.append)
    until(lambda: logind.held() == 1)
    logind.stranger_announces("PrepareForShutdown")
    logind.announce("PrepareForSleep", True)
    until(lambda: told)
    assert told == ["sleep-coming"]
    power.stop()


def test_a_logind_that_is_started_again_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[PowerEvent]()
    power = LogindPower(retry_s=0.05)
    with private_bus(tmp_path) as address:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        power.start(told.append)
        time.sleep(0.2)
        fake = FakeLogind(address)
        until(lambda: fake.held() == 1)
        fake.announce("PrepareForSleep", True)
        until(lambda: told == ["sleep-coming"])
        fake.close()
    power.stop()


def test_without_a_bus_nothing_is_told_and_it_ends_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'no-bus'}")
    power, told = LogindPower(), list[PowerEvent]()
    power.start(told.append)
    began = time.monotonic()
    power.ready()
    power.stop()
    assert time.monotonic() - began < 5
    assert told == []


def test_a_script_puts_the_machine_to_sleep_and_wakes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "sources.json"
    script.write_text("{}")
    monkeypatch.setenv(SETTING, str(script))
    power, told = find_sources().power, list[PowerEvent]()
    power.start(told.append)
    for state in ("sleeping", "awake", "shutting-down"):
        script.write_text(json.dumps({"power": state}))
        count = len(told)
        until(lambda count=count: len(told) > count)
    power.stop()
    assert told == ["sleep-coming", "woke", "end-coming"]
