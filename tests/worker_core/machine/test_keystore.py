"""The credential: in a real keystore, in a locked one, without one, in a file."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from worker_core.machine.keystore import (
    Absent,
    Deleted,
    FileStore,
    Found,
    KeyringStore,
    Saved,
    Unavailable,
    chosen_store,
    open_store,
)
from worker_core.machine.paths import find_paths

SECRET = "s" * 400

STORY = """
from worker_core.machine.keystore import KeyringStore
store, other = KeyringStore("one"), KeyringStore("two")
print(store.load())
print(store.save("s" * 400))
print(store.load().secret == "s" * 400, other.load())
print(store.save("new"), store.load())
print(store.delete(), store.load(), store.delete())
"""
ONE_SAVE = "from worker_core.machine.keystore import KeyringStore; print(KeyringStore('one').save('x'))"
ONE_LOAD = "from worker_core.machine.keystore import KeyringStore; print(KeyringStore('one').load())"


# The newline is the password of the fresh keystore: with no input at all there would be none to unlock.
UNLOCK = "echo | gnome-keyring-daemon --unlock --components=secrets"
LEAVE_LOCKED = "gnome-keyring-daemon --start --components=secrets"


def on_a_private_bus(home: Path, code: str, keystore: str) -> list[str]:
    """Run Python beside a keystore of its own, and return the lines it prints."""
    assert shutil.which("dbus-run-session")
    assert shutil.which("gnome-keyring-daemon")
    runtime = home / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(runtime)}
    script = f'{keystore} >/dev/null 2>&1; exec "$0" -c "$1"'
    command = ["dbus-run-session", "--", "sh", "-c", script, sys.executable, code]
    shown = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False, cwd=home)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.splitlines()


def test_a_secret_is_kept_in_a_real_keystore_per_home(tmp_path: Path) -> None:
    assert on_a_private_bus(tmp_path, STORY, UNLOCK) == [
        "Absent()",
        "Saved()",
        "True Absent()",
        "Saved() Found(secret='new')",
        "Deleted() Absent() Deleted()",
    ]


def test_a_locked_keystore_is_a_result_that_says_what_to_do(tmp_path: Path) -> None:
    assert on_a_private_bus(tmp_path, ONE_SAVE, UNLOCK) == ["Saved()"]
    (line,) = on_a_private_bus(tmp_path, ONE_LOAD, LEAVE_LOCKED)
    assert "fault='locked'" in line
    assert "Unlock it" in line


def test_without_a_session_there_is_no_keystore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    result = KeyringStore("one").load()
    assert isinstance(result, Unavailable)
    assert result.fault == "none"
    assert "--credential-store file" in result.detail
    assert "keyrings.alt" not in result.detail


def test_a_keystore_that_asks_and_waits_does_not_hold_us() -> None:
    store = KeyringStore("one", command=[sys.executable, "-c", "import time; time.sleep(60)"], limit_s=0.5)
    began = time.monotonic()
    result = store.load()
    assert isinstance(result, Unavailable)
    assert result.fault == "timeout"
    assert time.monotonic() - began < 20


def test_a_keystore_child_that_crashes_is_a_result() -> None:
    store = KeyringStore("one", command=[sys.executable, "-c", "raise SystemExit('no backend')"])
    result = store.save("x")
    assert isinstance(result, Unavailable)
    assert (result.fault, "no backend" in result.detail) == ("failed", True)


def test_the_secret_is_on_no_command_line(tmp_path: Path) -> None:
    record = tmp_path / "argv"
    code = f"import sys; open({str(record)!r}, 'w').write(repr(sys.argv)); sys.stdin.read(); print('{{}}')"
    assert KeyringStore("one", command=[sys.executable, "-c", code]).save(SECRET) == Saved()
    assert SECRET not in record.read_text()


def test_a_file_keeps_the_secret_for_its_owner_only(tmp_path: Path) -> None:
    store = open_store(find_paths(str(tmp_path)), "file")
    assert store.load() == Absent()
    assert store.save(SECRET) == Saved()
    path = find_paths(str(tmp_path)).credential_file
    assert path.stat().st_mode & 0o777 == 0o600
    assert store.load() == Found(SECRET)
    assert store.delete() == Deleted()
    assert store.load() == Absent()
    assert list(path.parent.iterdir()) == []


def test_a_file_that_others_can_read_is_refused_with_the_cure(tmp_path: Path) -> None:
    path = tmp_path / "credential.json"
    store = FileStore(path)
    store.save("x")
    path.chmod(0o644)
    result = store.load()
    assert isinstance(result, Unavailable)
    assert (result.fault, f"chmod 600 {path}" in result.detail) == ("denied", True)


def test_a_file_with_nonsense_is_a_result(tmp_path: Path) -> None:
    path = tmp_path / "credential.json"
    path.write_bytes(b"{}")
    path.chmod(0o600)
    result = FileStore(path).load()
    assert isinstance(result, Unavailable)
    assert result.fault == "failed"


def test_secrets_that_windows_would_cut_are_refused_everywhere(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="400"):
        FileStore(tmp_path / "x").save("s" * 401)


def test_the_store_is_chosen_by_argument_then_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_CREDENTIAL_STORE", raising=False)
    assert chosen_store() == "keyring"
    monkeypatch.setenv("STOKER_CREDENTIAL_STORE", "file")
    assert chosen_store() == "file"
    assert chosen_store("keyring") == "keyring"
    monkeypatch.setenv("STOKER_CREDENTIAL_STORE", "cloud")
    with pytest.raises(ValueError, match="cloud"):
        chosen_store()


def test_the_core_does_not_load_the_keyring_library() -> None:
    code = "import sys, worker_core.machine.keystore; print('keyring' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.strip() == "False"
