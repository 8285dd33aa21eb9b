"""What people reported of other tray programs does not happen here. Each test names the complaint it answers."""

import random
import signal
import time
from pathlib import Path

import psutil

from tests.desktop.kit import DesktopProcess, Launch, TrayHost, wait_for
from tests.desktop.scripted_core import ScriptedCore, paired, training, unpaired, waiting
from tests.desktop.test_with_core import core_pid, end_core
from worker_core.wire.status import ModesShown


def test_the_gpu_comes_back_with_one_click_and_the_label_says_until_when(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    """A snooze that ended after a fixed hour, unasked (BOINC 1429)."""
    core.set_status(training())
    launch("--background")
    host.wait_for_headline("Training")
    assert host.find("Saves a checkpoint first; loses at most 12 s of work")["visible"]
    asked_at = time.time()
    assert host.ask("click", "For 30 minutes")
    host.wait_for_headline("Paused")
    (args,) = core.asked("give-back")
    assert 0 <= args["until"] - asked_at - 1800 < 60
    clock = time.strftime("%H:%M", time.localtime(args["until"]))
    wait_for(lambda: clock in host.item()["tooltip"], what="the time in the tooltip")
    tooltip = host.item()["tooltip"]
    assert "Freed in 3 s" in tooltip
    assert "Takes jobs again" in tooltip
    assert host.ask("click", "Until I resume")
    wait_for(lambda: len(core.asked("give-back")) == 2, what="the second wish")
    assert core.asked("give-back")[1]["until"] is None
    wait_for(lambda: "until you resume" in host.item()["tooltip"], what="no end")
    assert host.ask("click", "Resume")
    host.wait_for_headline("Available")


def test_a_program_without_any_place_to_write_to_runs_and_keeps_its_log(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    """A windowed build without stderr that dies of its own log (PyInstaller 7782)."""
    desktop = launch("--background", detached=True)
    host.wait_for_headline("Not paired")
    desktop.process.send_signal(signal.SIGTERM)
    assert desktop.wait() == 0
    assert "Connected to the worker" in (core.paths.logs / "desktop.log").read_text()


def test_eight_starts_at_once_make_one_desktop_and_one_worker(host: TrayHost, launch: Launch, tmp_path: Path) -> None:
    """Two starters that race at log-in (Maestral 607)."""
    try:
        started: list[DesktopProcess] = [launch("--background") for _ in range(8)]
        wait_for(lambda: sum(one.process.poll() is None for one in started) == 1, what="one to stay", timeout_s=90)
        assert [one.process.poll() for one in started if one.process.poll() is not None] == [0] * 7
        host.wait_for_headline("Not paired")
        pid = core_pid(tmp_path)
        assert pid is not None
        mine = [one for one in psutil.process_iter() if _runs_core_of(one, tmp_path)]
        assert [one.pid for one in mine] == [pid]
    finally:
        end_core(tmp_path)


def _runs_core_of(process: psutil.Process, home: Path) -> bool:
    try:
        is_core = "--started-by" in process.cmdline()
        return is_core and process.environ().get("STOKER_HOME") == str(home)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def test_an_offline_start_opens_no_window_and_the_menu_works(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    """Two dialogs that block each other at a start without network (Anki 2881)."""
    core.set_status(paired("offline", contact_age_s=None, reasons=("coordinator-unreachable",)))
    desktop = launch("--background")
    host.wait_for_headline("Offline")
    assert desktop.windows() == []
    assert host.entries()["Drain"]["enabled"]


def test_the_tray_says_what_the_worker_says_and_each_click_has_an_effect(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    """A tray that shows "pause" though all is stopped, and a click that does nothing (FAH 186)."""
    core.set_status(paired())
    launch("--background")
    host.wait_for_headline("Available")
    chance, clicks = random.Random(76), 0
    for turn in range(100):
        mode = chance.choice(["run", "drain", "stop"])
        state = "available" if mode == "run" else "paused"
        core.set_status(paired(state, mode=ModesShown(here=mode)))  # type: ignore[arg-type]
        if turn % 10 == 0:
            wait_for(lambda mode=mode: _offers(host) == (mode == "run", mode != "stop", mode != "run"), what="the menu")
            clicks += bool(host.ask("click", chance.choice(["Drain", "Stop", "Resume"])))
            # What a click changes must not come after what the next turn says.
            wait_for(lambda clicks=clicks: len(core.asked("mode")) == clicks, what="every click at the worker")
    here = core.status.mode.here
    host.wait_for_headline("Available" if core.status.state == "available" else "Paused")
    wait_for(lambda: _offers(host) == (here == "run", here != "stop", here != "run"), what="the menu of the end")


def _offers(host: TrayHost) -> tuple[bool, ...]:
    """Return which of Drain, Stop and Resume can be chosen."""
    entries = host.entries()
    return tuple(entries[label]["enabled"] for label in ("Drain", "Stop", "Resume"))


def test_it_ends_well_after_its_endpoint_was_deleted_under_it(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    """A removed pipe that keeps a program from ending (Picard 2116)."""
    core.set_status(paired())
    desktop = launch("--background")
    host.wait_for_headline("Available")
    core.paths.control_file.unlink()
    assert host.ask("click", "Quit Stoker")
    assert desktop.wait() == 0


def test_it_ends_well_whatever_it_shows(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    """A crash at the end, with a thread or a window left over (napari 7633)."""
    cases = (
        (unpaired(), "Not paired", "Pair…"),
        (waiting(), "Waiting for approval", "Show pairing code…"),
        (training(), "Training", "Live metrics"),
        (training(), "Training", "Quit Stoker"),
        (paired("paused", mode=ModesShown(here="stop")), "Paused", "Status window"),
        (paired("revoked"), "Revoked", "Pair…"),
    )
    for status, headline, click in cases:
        core.set_status(status)
        desktop = launch("--background")
        host.wait_for_headline(headline)
        assert host.ask("click", click)
        wait_for(desktop.windows, what=f"a window after {click}")
        desktop.process.send_signal(signal.SIGTERM)
        assert desktop.wait() == 0
        host.ask("own")


def test_an_autostart_entry_with_an_old_path_is_corrected(
    core: ScriptedCore, host: TrayHost, launch: Launch, tmp_path: Path
) -> None:
    """Autostart that points to where the program was (SyncthingTray 302)."""
    core.paths.config.mkdir(parents=True, exist_ok=True)
    (core.paths.config / "desktop.json").write_text('{"autostart": true}')
    folder = tmp_path / "xdg" / "autostart"
    folder.mkdir(parents=True)
    entry = folder / f"stoker-{core.paths.identity}.desktop"
    entry.write_text("[Desktop Entry]\nType=Application\nName=Stoker\nExec=/gone/stoker app --background\n")
    launch("--background", XDG_CONFIG_HOME=str(tmp_path / "xdg"))
    host.wait_for_headline("Not paired")
    wait_for(lambda: "/gone" not in entry.read_text(), what="the corrected entry", timeout_s=30)
    assert "app --background" in entry.read_text()
