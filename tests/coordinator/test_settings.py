"""Settings and clock of a coordinator."""

import json
import time

import pytest

from coordinator.clock import ScriptedClock, SystemClock, rfc3339
from coordinator.settings import BadSettings, Settings, load_settings


def test_no_file_means_defaults(tmp_path):
    assert load_settings(tmp_path) == Settings()


def test_a_file_sets_intervals_of_both_sides(tmp_path):
    (tmp_path / "coordinator.toml").write_text("token_ttl_s = 5\n[worker]\nlease_ttl_s = 7.5\n")
    settings = load_settings(tmp_path)
    assert (settings.token_ttl_s, settings.worker.lease_ttl_s) == (5, 7.5)
    assert settings.nonce_s == 300


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("token_ttl = 5", "token_ttl"),
        ("token_ttl_s = -1", "token_ttl_s"),
        ("token_ttl_s = inf", "token_ttl_s"),
        ("[worker]\nheartbeat_s = 0", "worker.heartbeat_s"),
        ("[worker]\nheartbeat_s = -1", "worker.heartbeat_s"),
        ("[worker]\nheartbeat_s = 0.001", "worker.heartbeat_s"),
        ("[worker]\nreconnect_spread_s = -1", "worker.reconnect_spread_s"),
        ("[worker]\nretry_cap_s = nan", "worker.retry_cap_s"),
        ("wrong_codes = 'many'", "wrong_codes"),
        ("token_ttl_s = 5\nnonce_s = [", "document"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, text, word):
    (tmp_path / "coordinator.toml").write_text(text)
    with pytest.raises(BadSettings, match=word):
        load_settings(tmp_path)


def test_the_clock_follows_time_and_its_script(tmp_path):
    assert SystemClock().now() == pytest.approx(time.time(), abs=2)
    script = tmp_path / "clock.json"
    clock = ScriptedClock(script)
    start = clock.now()
    script.write_text(json.dumps({"offset_s": 3600}))
    assert clock.now() - start == pytest.approx(3600, abs=2)
    script.write_text("{half")
    assert clock.now() - start == pytest.approx(3600, abs=2)


def test_moments_are_shown_in_utc():
    assert rfc3339(1_764_520_800.7) == "2025-11-30T16:40:00Z"
