"""The tray as its host sees it: icon, tooltip, menu, and what a click makes the core hear."""

import os
import signal
import time

from tests.desktop.kit import Launch, TrayHost, wait_for
from tests.desktop.scripted_core import ScriptedCore, paired, training, unpaired
from worker_core.wire.status import ModesShown


def test_the_icon_carries_sizes_for_every_panel_and_a_tooltip_that_says_the_state(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    core.set_status(paired())
    launch("--background")
    wait_for(lambda: "Available" in host.item()["tooltip"], what="the tooltip")
    item = host.item()
    assert {16, 20, 22, 24, 32, 48} <= set(item["sizes"])
    assert "train.example.org" in item["tooltip"]


def test_the_menu_of_an_unpaired_worker_offers_pairing_and_nothing_it_cannot_do(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    launch("--background")
    host.wait_for_headline("Not paired")
    entries = host.entries()
    assert next(iter(entries)) == "Not paired"
    assert [label for label in entries if entries[label]["enabled"]] == [
        "Pair…",
        "Live metrics",
        "Status window",
        "Settings…",
        "Quit Stoker",
    ]
    assert "Unpair…" not in entries


def test_drain_stop_and_resume_reach_the_core_and_its_answer_shows(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    core.set_status(training())
    launch("--background")
    host.wait_for_headline("Training lunar lander, 45 %")
    assert not host.entries()["Resume"]["enabled"]
    assert host.ask("click", "Drain")
    host.wait_for_headline("Finishing lunar lander")
    assert host.ask("click", "Stop")
    host.wait_for_headline("Paused")
    assert host.ask("click", "Resume")
    host.wait_for_headline("Available")
    assert [args["mode"] for args in core.asked("mode")] == ["drain", "stop", "run"]


def test_open_console_goes_to_the_browser(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    core.set_status(paired())
    desktop = launch("--background")
    host.wait_for_headline("Available")
    assert host.ask("click", "Open console")
    wait_for(desktop.opened.exists, what="the browser")
    assert wait_for(lambda: desktop.opened.read_text().strip(), what="the address") == "https://train.example.org"


def test_a_click_on_the_icon_opens_the_status_window(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    desktop = launch("--background")
    host.wait_for_headline("Not paired")
    assert host.ask("activate")
    wait_for(lambda: "Stoker" in desktop.windows(), what="the status window")


def test_each_state_shows_another_picture(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    core.set_status(paired())
    launch("--background")
    host.wait_for_headline("Available")
    pictures = {wait_for(lambda: host.item()["picture"], what="a picture")}
    for status, headline in ((training(), "Training"), (paired("offline"), "Offline"), (unpaired(), "Not paired")):
        seen = set(pictures)
        core.set_status(status)
        host.wait_for_headline(headline)
        pictures.add(wait_for(lambda seen=seen: {host.item()["picture"]} - seen, what="a new picture").pop())
    assert len(pictures) == 4


def test_an_icon_does_not_flicker_when_the_state_does(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    core.set_status(paired())
    launch("--background")
    host.wait_for_headline("Available")
    before = host.ask("counts")["icon_changes"]
    for turn in range(50):
        core.set_status(paired() if turn % 2 else paired("paused", mode=ModesShown(here="drain")))
        time.sleep(0.04)
    assert host.ask("counts")["icon_changes"] - before <= 3


def test_a_tray_host_that_comes_late_gets_the_icon(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    host.ask("leave")
    launch("--background")
    wait_for(lambda: core.requests or core._clients, what="the desktop")
    time.sleep(1.5)
    host.ask("own")
    started = time.monotonic()
    host.item()
    assert time.monotonic() - started < 3


def test_a_tray_host_that_restarts_gets_one_icon_with_a_menu_that_works(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    core.set_status(paired())
    launch("--background")
    host.wait_for_headline("Available")
    host.ask("leave")
    time.sleep(0.3)
    host.ask("own")
    host.wait_for_headline("Available")
    assert host.ask("counts")["items"] == 1
    assert host.ask("click", "Drain")
    wait_for(lambda: core.asked("mode"), what="the request")


def test_killing_the_tray_leaves_the_core_alone(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    core.set_status(training())
    desktop = launch("--background")
    host.wait_for_headline("Training")
    os.kill(desktop.process.pid, signal.SIGKILL)
    desktop.wait()
    assert core.requests == []
    assert not core.ended.is_set()
    launch("--background")
    host.wait_for_headline("Training")


def test_a_hung_core_leaves_the_menu_usable_and_is_called_not_responding(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    core.behaviour = "silent"
    launch("--background")
    host.wait_for_headline("Not responding")
    started = time.monotonic()
    host.ask("about_to_show")
    host.ask("menu")
    assert time.monotonic() - started < 0.2
    core.behaviour = "normal"
    host.wait_for_headline("Not paired")


def test_a_core_that_talks_nonsense_is_called_not_responding(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    core.behaviour = "garbage"
    launch("--background")
    host.wait_for_headline("Not responding")


def test_a_core_of_another_version_is_named_as_such(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    core.behaviour = "newer"
    launch("--background")
    host.wait_for_headline("Versions differ")


def test_the_tray_loads_no_heavy_library(core: ScriptedCore, host: TrayHost, launch: Launch) -> None:
    desktop = launch("--background", PYTHONVERBOSE="1")
    host.wait_for_headline("Not paired")
    loaded = {line.split("'")[1].split(".")[0] for line in desktop.stderr.splitlines() if line.startswith("import '")}
    assert "PySide6" in loaded
    assert not loaded & {"torch", "numpy", "asyncio", "httpx", "pyqtgraph", "typer", "rich", "psutil"}
    assert not loaded & {"_hashlib", "_bz2", "_lzma"}
