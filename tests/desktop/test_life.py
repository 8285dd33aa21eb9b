"""How the desktop starts, meets itself, loses its core and leaves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from app.desktop.tray import host as tray_host
from tests.desktop.kit import Display, Launch, TrayHost, wait_for
from tests.desktop.scripted_core import ScriptedCore, paired, training

QUIT_QUESTION = "A job is training"


def run_app(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    }
    return subprocess.run(
        [sys.executable, "-m", "app.entry", "app"],
        env=clean | {"STOKER_HOME": str(home)} | environment,
        capture_output=True,
        text=True,
        timeout=20,
    )


def test_without_a_display_it_says_so_and_leaves_with_3(tmp_path: Path) -> None:
    for environment in ({}, {"DISPLAY": ":7654"}):
        ended = run_app(tmp_path, **environment)
        assert ended.returncode == 3
        assert "display" in ended.stderr
        assert "stoker run" in ended.stderr
        assert "Traceback" not in ended.stderr
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_wrong_option_is_explained_and_leaves_with_2() -> None:
    command = [sys.executable, "-m", "app.entry", "app", "--backgrund"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 2
    assert "--background" in ended.stderr


def test_a_home_that_cannot_be_used_is_named(tmp_path: Path, display: Display) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    ended = run_app(tmp_path, DISPLAY=display.name)
    assert ended.returncode == 1
    assert str(tmp_path / "data") in ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_a_tray_host_the_status_window_comes_within_20_s(core: ScriptedCore, launch: Launch) -> None:
    """The process is told to be less patient than it is, so that nobody waits for the figure itself."""
    assert tray_host.PATIENCE_S + 2 * tray_host.POLL_MS / 1000 < 20
    desktop = launch("--background", patience_s=2.0)
    wait_for(lambda: core._clients, what="the desktop")
    assert desktop.windows() == []
    wait_for(lambda: "Stoker" in desktop.windows(), what="the status window")


def test_a_second_start_raises_the_first_and_leaves(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    first = launch("--background")
    host.wait_for_headline("Not paired")
    assert launch("--background").wait() == 0
    assert first.windows() == []
    assert launch().wait() == 0
    wait_for(lambda: "Stoker" in first.windows(), what="the raised window")
    assert first.process.poll() is None


@pytest.mark.parametrize("fault", ["stopped", "socket gone"])
def test_a_second_start_says_within_5_s_that_the_first_does_not_answer(
    core: ScriptedCore, host: TrayHost, launch: Launch, fault: str
) -> None:
    first = launch("--background")
    host.wait_for_headline("Not paired")
    if fault == "stopped":
        first.process.send_signal(signal.SIGSTOP)
    else:
        (core.paths.control_socket.parent / "desktop.sock").unlink()
    started = time.monotonic()
    second = launch()
    assert second.wait() == 4
    assert time.monotonic() - started < 3 * 5
    assert f"(process {first.process.pid}) but does not answer" in second.stderr
    first.process.send_signal(signal.SIGCONT)


def test_a_lock_left_by_a_dead_desktop_does_not_stop_the_next(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    """Its process number belongs to another program by now, which looks alive."""
    lock = core.paths.data / "desktop.lock"
    lock.write_text(f"{os.getpid()}\n{Path(sys.executable).resolve().name}\n{os.uname().nodename}\n\n\n")
    launch("--background")
    host.wait_for_headline("Not paired")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_at_once_and_leaves_core_and_folder_alone(
    core: ScriptedCore, host: TrayHost, launch: Launch, number: signal.Signals
) -> None:
    core.set_status(training())
    desktop = launch("--background")
    host.wait_for_headline("Training")
    desktop.process.send_signal(number)
    started = time.monotonic()
    assert desktop.wait() == 0
    assert time.monotonic() - started < 2
    assert core.requests == []
    assert not (core.paths.logs / "desktop-crash.log").exists()


def test_quit_ends_an_idle_core_that_the_desktop_started(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    core.set_status(paired())
    desktop = launch("--background")
    host.wait_for_headline("Available")
    assert host.ask("click", "Quit Stoker")
    assert desktop.wait() == 0
    assert core.asked("quit") == [{"how": "checkpoint"}]


def test_quit_asks_while_a_job_runs(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    core.set_status(training())
    desktop = launch("--background")
    host.wait_for_headline("Training")
    assert host.ask("click", "Quit Stoker")
    wait_for(lambda: any(title.startswith(QUIT_QUESTION) for title in desktop.windows()), what="the question")
    assert desktop.process.poll() is None
    assert core.asked("quit") == []
    host.ask("about_to_show")
    assert host.entries(), "the menu works under the question"


def test_a_remembered_answer_is_not_asked_for_again(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    core.paths.config.mkdir(parents=True, exist_ok=True)
    (core.paths.config / "desktop.json").write_text('{"quit_choice": "drain"}')
    core.set_status(training())
    desktop = launch("--background")
    host.wait_for_headline("Training")
    assert host.ask("click", "Quit Stoker")
    assert desktop.wait() == 0
    assert core.asked("quit") == [{"how": "drain"}]


def test_a_core_that_left_on_purpose_is_not_started_again_unasked(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    launch("--background")
    host.wait_for_headline("Not paired")
    core.close()
    host.wait_for_headline("Not running")
    time.sleep(1)
    assert not core.paths.control_file.exists()
    assert host.entries()["Start the worker"]["enabled"]


def test_a_crash_is_told_when_somebody_looks_however_many_starts_later(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    core.paths.logs.mkdir(parents=True, exist_ok=True)
    (core.paths.logs / "desktop-crash.log").write_text("Fatal Python error: Segmentation fault\n")
    unseen = launch("--background")
    host.wait_for_headline("Not paired")
    unseen.process.send_signal(signal.SIGTERM)
    assert unseen.wait() == 0
    desktop = launch("--background")
    host.wait_for_headline("Not paired")
    assert desktop.windows() == []
    assert host.ask("click", "Status window")
    wait_for(lambda: desktop.windows().count("Stoker") == 2, what="the notice beside the status window")
    desktop.process.send_signal(signal.SIGTERM)
    assert desktop.wait() == 0
    assert not list(core.paths.logs.glob("desktop-crash*"))


def test_garbage_preferences_are_put_aside_for_the_defaults(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    core.paths.config.mkdir(parents=True, exist_ok=True)
    (core.paths.config / "desktop.json").write_text("{quit_choice: ")
    launch("--background")
    host.wait_for_headline("Not paired")


def test_qt_calls_that_return_nothing_do_not_eat_the_reference_count_of_none() -> None:
    """A broken binding loses one reference a call and ends the interpreter after some thousands."""
    program = (
        "import sys\n"
        "from PySide6.QtCore import QObject\n"
        "made = QObject()\n"
        "before = sys.getrefcount(None)\n"
        "for _ in range(20000): made.setObjectName('x')\n"
        "print(before - sys.getrefcount(None))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 0
    assert abs(int(ended.stdout)) < 100


def test_an_idle_tray_rests(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    desktop = launch("--background")
    host.wait_for_headline("Not paired")
    time.sleep(1)
    process = psutil.Process(desktop.process.pid)
    before = process.cpu_times()
    time.sleep(4)
    after = process.cpu_times()
    assert after.user + after.system - before.user - before.system <= 0.04
    assert process.memory_info().rss < 3 * 65 * 2**20
