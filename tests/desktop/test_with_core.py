"""The desktop with a real core: it starts one, it replaces one that was killed, and it ends one that idles."""

import os
import signal
from pathlib import Path

import psutil

from tests.desktop.kit import DesktopProcess, Launch, TrayHost, wait_for
from worker_core.control.endpoint import endpoint_alive, read_endpoint
from worker_core.machine.paths import find_paths


def core_pid(home: Path) -> int | None:
    endpoint = read_endpoint(find_paths(str(home)))
    return endpoint.pid if endpoint is not None and endpoint_alive(endpoint) else None


def core_after(home: Path, earlier: int) -> int | None:
    pid = core_pid(home)
    return pid if pid != earlier else None


def end_core(home: Path) -> None:
    if pid := core_pid(home):
        os.kill(pid, signal.SIGTERM)
        psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=10)


def test_it_starts_a_core_follows_a_new_one_after_a_crash_and_ends_it_with_quit(
    host: TrayHost, launch: Launch, tmp_path: Path
) -> None:
    try:
        desktop: DesktopProcess = launch("--background")
        host.wait_for_headline("Not paired")
        first = core_pid(tmp_path)
        assert first is not None
        assert os.getsid(first) != os.getsid(desktop.process.pid), "the core has a session of its own"

        os.kill(first, signal.SIGKILL)
        second = wait_for(lambda: core_after(tmp_path, first), what="a new core", timeout_s=15)
        host.wait_for_headline("Not paired")

        assert host.ask("click", "Quit Stoker")
        assert desktop.wait() == 0
        wait_for(lambda: core_pid(tmp_path) is None, what="the end of the core", timeout_s=15)
        wait_for(lambda: not psutil.pid_exists(second), what="the end of its process", timeout_s=15)
    finally:
        end_core(tmp_path)


def test_two_desktops_of_two_homes_have_two_cores(host: TrayHost, launch: Launch, tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    try:
        for home in homes:
            home.mkdir()
            launch("--background", home=home)
        pids = {wait_for(lambda home=home: core_pid(home), what="a core", timeout_s=20) for home in homes}
        assert len(pids) == 2
    finally:
        for home in homes:
            end_core(home)
