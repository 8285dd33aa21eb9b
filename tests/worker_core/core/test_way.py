"""A whole worker behind a proxy that asks for a login and inspects: it pairs, works and delivers through it."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from inspecting_proxy import LOGIN, Authority, InspectingProxy  # pyright: ignore[reportMissingImports]

from app.cli.client import CoordinatorClient
from worker_core.control.messages import PairArgs
from worker_core.core.pair_alone import pair_alone
from worker_core.core.settings import BadSettings, Settings, read_settings
from worker_core.machine.atomic_files import private_folder
from worker_core.wire.codec import convert
from worker_core.wire.session import Meta

HOST = "stoker.example.org"


def ask_as_a_command(url: str) -> Meta:
    """What `stoker login`, `stoker jobs` and their like do first."""
    with CoordinatorClient(url) as client:
        return client.meta()


async def test_pairing_a_job_and_the_commands_go_through_the_proxy_of_the_settings(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    proxy = InspectingProxy(bench.coordinator.port, authority.issue(HOST))
    await proxy.start()
    user, _, password = LOGIN.partition(":")
    way = {
        "proxy": f"http://{quote(user)}:{quote(password)}@127.0.0.1:{proxy.port}",
        "ca_file": str(authority.file),
        "allow_uncontained": True,
    }
    private_folder(bench.paths.config)
    bench.paths.settings_file.write_text(json.dumps(way))
    args = PairArgs(coordinator=f"https://{HOST}", email="ada@example.org", credential_store="file")
    outcome = await asyncio.to_thread(pair_alone, bench.paths, args, lambda _: None)
    assert outcome.state == "approved", outcome.detail
    monkeypatch.setenv("STOKER_HOME", str(bench.paths.data.parent))
    meta = await asyncio.to_thread(ask_as_a_command, f"https://{HOST}")
    assert meta.gen == bench.coordinator.gen
    paired = len(proxy.connected)
    bench.settings = read_settings(bench.paths)
    await bench.start()
    attempt = bench.offer(steps=3)
    done = await bench.until(lambda: bench.coordinator.completions.get(attempt), timeout_s=30)
    await bench.stop()
    await proxy.stop()
    assert done.outcome == "succeeded"
    assert paired >= 2
    assert len(proxy.connected) >= paired + 3
    assert set(proxy.connected) == {f"{HOST}:443"}


@pytest.mark.parametrize("setting", ["proxy", "ca_file"])
def test_a_way_that_cannot_be_gone_is_told_by_the_name_of_the_setting(tmp_path: Path, setting: str) -> None:
    settings = convert({setting: str(tmp_path / "nothing")}, Settings)
    with pytest.raises(BadSettings, match=f"the setting {setting}"):
        settings.route()
