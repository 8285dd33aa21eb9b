"""The settings file: defaults, clear refusals, and nothing of a person's lost."""

import json
from pathlib import Path

import msgspec
import pytest

from worker_core.core.settings import BadSettings, Settings, read_settings, write_settings
from worker_core.machine.paths import Paths, find_paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = find_paths(str(tmp_path))
    found.config.mkdir(parents=True)
    return found


def test_without_a_file_the_defaults_hold(paths: Paths) -> None:
    assert read_settings(paths) == Settings()


def test_what_is_left_out_has_its_default_and_unknown_keys_stay(paths: Paths) -> None:
    paths.settings_file.write_text('{"embedded_port": 4711, "of_a_later_version": [1, 2]}')
    settings = read_settings(paths)
    assert settings.embedded_port == 4711
    write_settings(paths, msgspec.structs.replace(settings, embedded_coordinator=True))
    kept = json.loads(paths.settings_file.read_text())
    assert kept["of_a_later_version"] == [1, 2]
    assert read_settings(paths).embedded_coordinator is True
    assert paths.settings_file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"embedded_port": 70000}', "embedded_port"),
        ('{"log_level": "loud"}', "log_level"),
        ('{"keep_blobs_bytes": "many"}', "keep_blobs_bytes"),
        ("{", "settings.json"),
        ("[]", "settings.json"),
    ],
)
def test_a_bad_file_is_refused_by_key_with_the_cure(paths: Paths, text: str, words: str) -> None:
    paths.settings_file.write_text(text)
    with pytest.raises(BadSettings, match=words) as refused:
        read_settings(paths)
    assert "defaults" in str(refused.value)
