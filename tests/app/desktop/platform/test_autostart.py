"""Autostart is what a person chose: corrected after a move, gone when it is switched off, left when others did that."""

import plistlib
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.desktop.platform.autostart import Entry, settle
from app.desktop.platform.autostart_linux import DesktopEntry, quote
from app.desktop.platform.autostart_macos import LaunchAgent
from app.desktop.platform.start import Start, start_of
from tests.desktop.kit import SYSTEM_PYTHON
from worker_core.machine.paths import find_paths

START = Start(("/opt/stoker/python", "-P", "-m", "app.entry", "app", "--background"))
MOVED = Start(("/srv/new place/python", "-P", "-m", "app.entry", "app", "--background"))
SYSTEMS = [DesktopEntry, LaunchAgent]


@pytest.mark.parametrize("system", SYSTEMS)
def test_it_is_set_read_back_corrected_and_removed(tmp_path: Path, system: type[DesktopEntry | LaunchAgent]) -> None:
    entry: Entry = system(START, tmp_path / "folder")
    assert settle(entry, wanted=False) == "absent"
    assert settle(entry, wanted=True) == "written"
    assert settle(entry, wanted=True) == "right"
    moved: Entry = system(MOVED, tmp_path / "folder")
    assert settle(moved, wanted=True) == "written"
    assert "/srv/new place/python" in (moved.read() or "")
    assert settle(moved, wanted=False) == "removed"
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("line", ["Hidden=true", "X-GNOME-Autostart-enabled=false", "hidden = True"])
def test_a_person_who_switched_it_off_in_the_session_s_settings_is_obeyed(tmp_path: Path, line: str) -> None:
    entry = DesktopEntry(START, tmp_path)
    entry.write()
    entry.path.write_text(f"{entry.expected()}{line}\n")
    assert settle(entry, wanted=True) == "switched-off"
    assert line in (entry.read() or "")


def test_an_agent_that_says_it_is_disabled_is_left_so_and_garbage_is_written_anew(tmp_path: Path) -> None:
    agent = LaunchAgent(START, tmp_path)
    agent.path.write_bytes(plistlib.dumps({"Label": "x", "Disabled": True}))
    assert settle(agent, wanted=True) == "switched-off"
    agent.path.write_text("<plist>no plist")
    assert settle(agent, wanted=True) == "written"
    made = plistlib.loads(agent.path.read_bytes())
    assert made["ProgramArguments"] == list(START.command)
    assert made["RunAtLoad"] is True


def test_a_home_of_its_own_has_an_entry_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "my home"))
    start = start_of(find_paths())
    assert start.name != "stoker"
    assert f'"STOKER_HOME={tmp_path}/my home"' in DesktopEntry(start, tmp_path).expected()
    agent = plistlib.loads(LaunchAgent(start, tmp_path).expected().encode())
    assert agent["EnvironmentVariables"] == {"STOKER_HOME": str(tmp_path / "my home")}
    monkeypatch.delenv("STOKER_HOME")
    assert start_of(find_paths()).name == "stoker"


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=30))
def test_every_argument_survives_the_desktop_entry(argument: str) -> None:
    """Undone as the specification says: escapes of the file first, then field codes, then the quotes."""
    word = quote(argument).replace("\\\\", "\\").replace("%%", "%")
    assert " " not in word or word.startswith('"')
    undone = re.sub(r'\\(["`$\\])', r"\1", word[1:-1]) if word.startswith('"') else word
    assert undone == argument


def test_the_entry_is_one_that_the_desktop_s_own_tool_accepts(tmp_path: Path) -> None:
    entry = DesktopEntry(Start(MOVED.command, "/home/a b"), tmp_path)
    entry.write()
    read = f"Gio.DesktopAppInfo.new_from_filename({str(entry.path)!r}).get_commandline()"
    program = f"import gi; from gi.repository import Gio; print({read})"
    shown = subprocess.run([SYSTEM_PYTHON, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    words = shlex.split(shown.stdout)
    assert words == ["env", "STOKER_HOME=/home/a b", *MOVED.command]
