"""The owner's rules at work: a real worker, scripted readings, and a logind on a private bus."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "machine"))

from fake_logind import FakeLogind, private_bus  # pyright: ignore[reportMissingImports]

from worker_core.control.messages import Request
from worker_core.control.server import ControlRefused
from worker_core.core.operations import CoreOperations
from worker_core.core.rules import duty, evaluate
from worker_core.core.settings import read_settings
from worker_core.machine import idle_linux
from worker_core.machine.idle import IdleClock
from worker_core.machine.keep_awake import LogindAwake
from worker_core.machine.owner_reading import SystemOwner
from worker_core.machine.sources import SETTING
from worker_core.wire.owner_rules import OwnerRules


class Machine:
    """What the owner's rules read of the worker on the bench."""

    def __init__(self, script: Path) -> None:
        self._script = script
        self.set()

    def set(self, **owner: Any) -> None:
        self._script.write_text(json.dumps({"owner": owner}))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    script = tmp_path / "sources.json"
    monkeypatch.setenv(SETTING, str(script))
    monkeypatch.setattr(duty, "LOOK_S", 0.2)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'no-bus'}")
    return Machine(script)


def rules_of(bench: Any, **rules: Any) -> None:
    bench.settings = bench.settings.__class__(allow_uncontained=True, rules=OwnerRules(**rules))


async def test_a_rule_stops_the_job_at_a_checkpoint_and_no_other_is_taken_until_it_lets_go(
    bench: Any, machine: Machine
) -> None:
    """Work that is fetched while computing is suspended (BOINC 4623)."""
    rules_of(bench, idle_minutes=10)
    machine.set(idle_s=3600.0, idle_source="a script")
    await bench.start_paired()
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: len(bench.coordinator.events[attempt]) > 15)
    machine.set(idle_s=0.0, idle_source="a script")
    release = await bench.until(lambda: bench.coordinator.releases.get(attempt))
    assert bench.coordinator.artifacts[attempt][release.checkpoint].startswith(b"checkpoint at step")
    await bench.until_state("paused")
    status = bench.worker.status()
    assert status.reasons == ("owner:in-use",)
    assert status.owner.idle_source == "a script"
    assert status.mode.here == "run"
    later = bench.offer(steps=3)
    polls = len(bench.coordinator.polls)
    await bench.until(lambda: len(bench.coordinator.polls) > polls or bench.coordinator.polls[-1].free_slots == 0)
    assert later not in bench.coordinator.accepted
    machine.set(idle_s=601.0, idle_source="a script")
    await bench.until(lambda: later in bench.coordinator.completions, timeout_s=45)


async def test_a_start_on_battery_takes_no_job_in_its_first_moments(
    bench: Any, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "SETTLE_S", {**evaluate.SETTLE_S, "battery": (0.0, 0.2)})
    machine.set(on_battery=True)
    worker = await bench.start_paired()
    assert worker.known.life.owner == "stop"
    assert worker.status().reasons == ("owner:battery",)
    machine.set(on_battery=None)
    await bench.until_state("available", timeout_s=60)


async def test_a_rule_whose_reading_is_missing_is_off_and_is_named(bench: Any, machine: Machine) -> None:
    """Idle detection that silently never says idle (BOINC 1187)."""
    rules_of(bench, idle_minutes=10)
    worker = await bench.start_paired()
    await bench.until_state("available")
    assert worker.status().owner.unknown == ("in-use",)


async def test_the_machine_is_held_awake_exactly_while_a_job_runs(
    bench: Any, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sleep that is blocked for ever, or not at all after a restart (FAH 200, BOINC 793)."""
    with private_bus(tmp_path) as address:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        logind = FakeLogind(address)
        await bench.start_paired()
        assert logind.held() == 0
        attempt = bench.offer(steps=10_000)
        await bench.until(lambda: logind.held() == 1, timeout_s=30)
        assert logind.asked[0] == ("sleep", "Stoker", "A training job runs", "block"), "and never the display"
        await bench.until(lambda: bench.worker.status().owner.awake == "held")
        await bench.worker.give_back(None)
        await bench.until(lambda: logind.held() == 0, timeout_s=30)
        await bench.worker.set_mode("run", False)
        later = bench.offer(steps=10_000)
        await bench.until(lambda: logind.held() == 1, timeout_s=30)
        machine.set(on_battery=True)
        await bench.until(lambda: logind.held() == 0, timeout_s=30)
        assert {attempt, later} <= set(bench.coordinator.accepted)
        logind.close()


async def test_a_system_that_refuses_is_told_once_and_shown(
    bench: Any, machine: Machine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error loop of a refused inhibitor (FAH 246)."""
    monkeypatch.setattr(duty, "ASK_AGAIN_S", 0.1)
    await bench.start_paired()
    bench.offer(steps=10_000)
    await bench.until(lambda: bench.worker.status().owner.awake == "refused", timeout_s=30)
    await asyncio.sleep(2.5)
    assert caplog.text.count("the machine may fall asleep") == 1


def test_a_held_machine_sleeps_again_when_its_worker_dies(tmp_path: Path) -> None:
    program = (
        "import time; from worker_core.machine.keep_awake import LogindAwake; "
        "LogindAwake().hold(); print('held', flush=True); time.sleep(60)"
    )
    with private_bus(tmp_path) as address:
        logind = FakeLogind(address)
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": address, "PATH": "/usr/bin:/bin"}
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            assert logind.held() == 1
            holder.kill()
        deadline = time.monotonic() + 30
        while logind.held() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert logind.held() == 0
        logind.close()


def test_letting_go_of_nothing_is_harmless() -> None:
    LogindAwake().release()


@pytest.mark.parametrize(
    ("answers", "seconds", "source"),
    [
        ([OSError("no bus"), 12.0, 5.0], 12.0, "b"),
        ([None, None, 3.0], 3.0, "c"),
        ([None, ValueError("nonsense"), None], None, ""),
    ],
)
def test_the_first_way_that_answers_tells_idleness(answers: list[Any], seconds: float | None, source: str) -> None:
    def reader(answer: Any) -> Any:
        def read() -> float | None:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return read

    ways = [(name, reader(answer)) for name, answer in zip("abc", answers, strict=True)]
    found = IdleClock(ways).read()
    assert found.source == source
    assert found.seconds == seconds or (seconds is not None and found.seconds is not None and found.seconds <= seconds)


def test_a_machine_without_desktop_bus_and_battery_gives_a_reading_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'no-bus'}")
    rules = OwnerRules(idle_minutes=1, programs=("x",), pause_on_metered=True)
    reading = SystemOwner().read(rules, ())
    assert reading.metered is None
    assert reading.hottest_gpu_c is None
    assert reading.programs


def test_a_program_of_the_job_does_not_stop_the_job(tmp_path: Path) -> None:
    """The agent's own load counts as activity (FAH 1483)."""
    game = tmp_path / "stokergame"
    game.symlink_to(sys.executable)
    rules = OwnerRules(programs=("stokergame",))
    waits = "import time; print('runs', flush=True); time.sleep(60)"
    with subprocess.Popen([game, "-I", "-S", "-c", waits], stdout=subprocess.PIPE) as own:
        assert own.stdout is not None
        assert own.stdout.readline() == b"runs\n"
        assert "stokergame" in {process.info["name"] for process in psutil.process_iter(["name"])}
        assert "stokergame" not in (SystemOwner().read(rules, ()).programs or ())
        own.kill()


def test_a_service_that_says_nothing_but_zero_under_wayland_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle detection that silently always says in use (BOINC 4084)."""
    said = [0]
    monkeypatch.setattr(idle_linux, "_ask", lambda *_: (said[0],))
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    service = idle_linux.ScreenSaver()
    assert service() is None
    said[0] = 4000
    assert service() == 4.0
    said[0] = 0
    assert service() == 0.0
    monkeypatch.delenv("WAYLAND_DISPLAY")
    assert idle_linux.ScreenSaver()() == 0.0


async def test_rules_that_are_changed_hold_at_once_and_after_a_restart(bench: Any, machine: Machine) -> None:
    worker = await bench.start_paired()
    operations = CoreOperations(worker, None)  # type: ignore[arg-type]
    machine.set(programs=["blender"])
    await bench.until_state("available")
    await operations.perform(Request(id="1", op="set-rules", args={"programs": ["blender"]}))
    assert worker.status().reasons == ("owner:program",)
    assert worker.status().state == "paused"
    assert (await operations.perform(Request(id="2", op="rules"))).programs == ("blender",)  # type: ignore[attr-defined]
    assert read_settings(bench.paths).rules.programs == ("blender",)
    with pytest.raises(ControlRefused, match="max_gpu_c"):
        await operations.perform(Request(id="3", op="set-rules", args={"max_gpu_c": 900}))
    await operations.perform(Request(id="4", op="set-rules", args={}))
    assert worker.status().reasons == ()
