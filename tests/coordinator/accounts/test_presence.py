"""Contact of workers: silence counts against them, sleep does not, and a restart remembers."""

import pytest

from coordinator.accounts.health import unhealthy_reasons
from coordinator.accounts.networks import network_of
from coordinator.accounts.presence import Contact, Presence
from coordinator.settings import Settings
from coordinator.storage.database import Database
from tests.coordinator.hand_clock import HandClock
from worker_core.wire.session import Health, Observed
from worker_core.wire.versions import is_older


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def presence(tmp_path, clock):
    database = Database.open(tmp_path / "test.db")
    yield Presence(database, clock, 45.0)
    database.close()


def note(presence: Presence) -> None:
    presence.note("wrk", state="available", reasons=(), local_mode="run", observed=Observed())


def begin(presence: Presence) -> None:
    presence.begin("wrk", state="available", reasons=(), local_mode="run", observed=Observed())


def kept(presence: Presence) -> Contact:
    contact = presence.of("wrk")
    assert contact is not None
    return contact


def hours(presence, clock, count: float, every_s: float = 30.0) -> None:
    for _ in range(int(count * 3600 / every_s)):
        clock.time += every_s
        note(presence)


def test_a_worker_that_keeps_contact_has_a_full_share(presence, clock):
    note(presence)
    hours(presence, clock, 2)
    assert kept(presence).share(clock.time) == 1.0


def test_short_silences_lower_the_share(presence, clock):
    note(presence)
    for _ in range(20):
        hours(presence, clock, 0.05)
        clock.time += 60
        note(presence)
    assert kept(presence).share(clock.time) == pytest.approx(0.75, abs=0.01)


def test_a_worker_that_falls_over_again_and_again_keeps_its_silences(presence, clock):
    begin(presence)
    for _ in range(20):
        hours(presence, clock, 0.05)
        clock.time += 60
        begin(presence)
    assert kept(presence).share(clock.time) == pytest.approx(0.75, abs=0.01)


def test_a_worker_that_was_switched_off_is_judged_from_its_return_on(presence, clock):
    begin(presence)
    hours(presence, clock, 1)
    presence.leave("wrk")
    clock.time += 300
    begin(presence)
    hours(presence, clock, 0.1)
    assert kept(presence).share(clock.time) == 1.0


def test_a_night_of_sleep_is_no_illness(presence, clock):
    note(presence)
    hours(presence, clock, 1)
    clock.time += 8 * 3600
    note(presence)
    hours(presence, clock, 0.1)
    assert kept(presence).share(clock.time) == 1.0


def test_yesterdays_silences_are_forgotten(presence, clock):
    note(presence)
    for _ in range(30):
        clock.time += 500
        note(presence)
    hours(presence, clock, 25, every_s=40)
    assert kept(presence).share(clock.time) == 1.0


def test_silence_begins_after_45_seconds_or_with_a_goodbye(presence, clock):
    assert presence.is_silent("wrk")
    note(presence)
    clock.time += 45
    assert not presence.is_silent("wrk")
    clock.time += 1
    assert presence.is_silent("wrk")
    presence.touch("wrk")
    assert not presence.is_silent("wrk")
    presence.leave("wrk")
    assert presence.is_silent("wrk")


@pytest.mark.parametrize(
    ("health", "failures", "version", "word"),
    [
        (Health(disk_free_share=0.049), [], "0.1.0", "disk"),
        (Health(), [True, True, True], "0.1.0", "last 3 jobs"),
        (Health(), [], "0.0.9", "older"),
        (Health(), [True, True], "0.1.0", None),
        (Health(), [False, True, True], "0.1.0", None),
        (Health(disk_free_share=0.05), [], "1.0", None),
    ],
)
def test_what_speaks_against_a_worker_is_said(clock, health, failures, version, word):
    contact = Contact(at=clock.time, since=clock.time)
    reasons = unhealthy_reasons(Settings(), contact, failures, health, version, clock.time)
    assert [word in reason for reason in reasons] == ([True] if word else [])


@pytest.mark.parametrize(
    ("version", "floor", "older"),
    [
        ("0.9.9", "0.10.0", True),
        ("0.10.0", "0.9.9", False),
        ("1", "1.0.0", False),
        ("dev", "0.1.0", True),
        ("9" * 5000, "0.1.0", False),
    ],
)
def test_versions_are_compared_as_numbers(version, floor, older):
    assert is_older(version, floor) is older


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.168.1.4", "192.168.1.200", True),
        ("192.168.1.4", "192.168.2.4", False),
        ("::ffff:192.168.1.4", "192.168.1.9", True),
        ("2001:db8:1:100::1", "2001:db8:1:1ff::2", True),
        ("2001:db8:1:100::1", "2001:db8:1:200::2", False),
        ("unknown", "unknown", True),
    ],
)
def test_networks_are_what_one_household_shares(one, other, same):
    assert (network_of(one) == network_of(other)) is same


async def test_contacts_that_could_not_be_written_down_are_written_later(tmp_path, clock):
    database = Database.open(tmp_path / "test.db")
    presence = Presence(database, clock, 45.0)
    note(presence)
    written = []

    class Full:
        async def write(self, run):
            written.append(run)
            if len(written) == 1:
                raise OSError("the disk is full")

    presence._db = Full()  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(OSError, match="full"):
        await presence.flush()
    await presence.flush()
    await presence.flush()
    assert len(written) == 2
    database.close()
