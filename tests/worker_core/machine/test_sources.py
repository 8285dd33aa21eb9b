"""Readings of the machine, and the script that can take their place."""

import json
import os
import time
from pathlib import Path

import pytest

from worker_core.machine.clocks import SystemClock
from worker_core.machine.gpus import NvidiaGpus
from worker_core.machine.host import boot_id, disk_space, read_host, read_load
from worker_core.machine.sources import SETTING, find_sources
from worker_core.wire.codec import BadMessage


def test_the_clocks_of_the_machine_go_forward() -> None:
    clock = SystemClock()
    before = (clock.now(), clock.awake())
    time.sleep(0.01)
    assert clock.now() > before[0]
    assert clock.awake() > before[1]
    assert clock.now() >= clock.awake() - 1
    assert abs(clock.wall() - time.time()) < 1


def test_a_machine_presents_itself_with_what_it_has() -> None:
    host = read_host(())
    assert host.hostname
    assert host.cpus >= 1
    assert host.ram_gb > 0
    assert boot_id() == boot_id()
    load = read_load()
    assert 0 < load.ram_used_bytes < load.ram_total_bytes


def test_disk_space_of_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    space = disk_space(tmp_path / "not" / "there")
    assert 0 < space.free_bytes <= space.total_bytes
    assert 0 < space.free_share <= 1


def test_a_machine_without_an_nvidia_driver_has_no_gpus() -> None:
    gpus = NvidiaGpus()
    assert gpus.facts() == () or all(gpu.uuid for gpu in gpus.facts())
    assert len(gpus.load()) == len(gpus.facts())


def test_a_script_moves_the_clock_fills_the_disk_and_adds_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "sources.json"
    script.write_text("{}")
    monkeypatch.setenv(SETTING, str(script))
    sources = find_sources()
    real_free = sources.disk.space(tmp_path).free_bytes
    now = sources.clock.now()
    gpu = {"uuid": "GPU-1", "name": "scripted", "memory_bytes": 8, "busy_pct": 50.0}
    script.write_text(
        json.dumps({"clock_offset_s": 1000, "wall_offset_s": -86400, "disk_free_bytes": 0, "gpus": [gpu]})
    )
    os.utime(script, (1, 1))
    assert sources.clock.now() - now >= 1000
    assert abs(sources.clock.wall() - (time.time() - 86400)) < 5
    assert sources.clock.awake() - time.monotonic() < 5
    assert (real_free > 0, sources.disk.space(tmp_path).free_bytes) == (True, 0)
    assert [gpu.uuid for gpu in sources.gpus.facts()] == ["GPU-1"]
    (shown,) = sources.gpus.load()
    assert (shown.busy_pct, shown.temperature_c) == (50.0, None)


def test_without_a_script_the_machine_itself_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    sources = find_sources()
    assert isinstance(sources.clock, SystemClock)
    assert sources.disk.space(tmp_path).total_bytes > 0


def test_a_script_with_nonsense_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "sources.json"
    script.write_text('{"clock_offset_s": "much"}')
    monkeypatch.setenv(SETTING, str(script))
    with pytest.raises(BadMessage, match="clock_offset_s"):
        find_sources().clock.now()


@pytest.mark.parametrize("content", [b"", b'{"wall_offset', b'{"wall_offset_s": "soon"}', None])
def test_a_script_that_is_half_written_or_gone_leaves_the_last_one_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    script = tmp_path / "sources.json"
    script.write_text('{"wall_offset_s": 86400}')
    monkeypatch.setenv(SETTING, str(script))
    clock = find_sources().clock
    assert clock.wall() - time.time() > 86000
    if content is None:
        script.unlink()
    else:
        script.write_bytes(content)
    assert clock.wall() - time.time() > 86000
    script.write_text('{"wall_offset_s": -86400}')
    assert time.time() - clock.wall() > 86000
