"""The pace of a pairing poll, told by a clock that a test moves."""

from typing import Any

import pytest
from scripted_coordinator import Answer, ScriptedCoordinator, html, message, refusal

from worker_core.link.client import CoordinatorClient
from worker_core.link.pairing import PairingOver, await_approval
from worker_core.wire.pairing import PairingStarted
from worker_core.wire.problems import ProblemError


class MovedClock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time

    awake = wall = now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds


def pending(error: str = "authorization_pending", **members: Any) -> Answer:
    return refusal("pairing-pending", error=error, **members)


STARTED = PairingStarted(
    pairing_id="prg",
    device_code="device-code-that-no-text-holds",
    user_code="BCDF-GHJK",
    verification_uri="",
    fingerprint="",
    expires_in=900,
)


async def test_it_asks_every_five_seconds_until_a_person_approves(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    coordinator.script("POST", "/v1/pairings/poll", pending(), pending())
    clock = MovedClock()
    approved = await await_approval(client, STARTED, clock, clock.sleep)
    assert approved.worker_id == coordinator.worker_id
    assert clock.waits == [5.0, 5.0, 5.0]


async def test_slow_down_lengthens_the_wait_for_good(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    slow = pending("slow_down")
    coordinator.script(
        "POST", "/v1/pairings/poll", pending(), slow, pending(), slow, pending("slow_down", interval=30.0), pending()
    )
    clock = MovedClock()
    await await_approval(client, STARTED, clock, clock.sleep)
    assert clock.waits == [5.0, 5.0, 10.0, 10.0, 15.0, 30.0, 30.0]


@pytest.mark.parametrize(("error", "state"), [("access_denied", "denied"), ("expired_token", "expired")])
async def test_a_decision_against_it_ends_it_with_its_reason(
    coordinator: ScriptedCoordinator, client: CoordinatorClient, error: str, state: str
) -> None:
    coordinator.pair_answer = pending(error)
    clock = MovedClock()
    with pytest.raises(PairingOver) as over:
        await await_approval(client, STARTED, clock, clock.sleep)
    assert over.value.state == state


async def test_faults_of_the_network_do_not_end_it(coordinator: ScriptedCoordinator, client: CoordinatorClient) -> None:
    coordinator.script("POST", "/v1/pairings/poll", html(), Answer(raw=b""), html(503), refusal("internal"))
    clock = MovedClock()
    assert await await_approval(client, STARTED, clock, clock.sleep)


async def test_an_approval_seconds_before_the_end_still_counts(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    clock = MovedClock()

    def late(_: Any) -> Answer:
        return message(coordinator.approval()) if clock.time >= 895 else pending()

    coordinator.script("POST", "/v1/pairings/poll", *[late] * 200)
    await await_approval(client, STARTED, clock, clock.sleep)
    assert clock.time >= 895


async def test_silence_beyond_the_codes_life_is_its_end(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    coordinator.pair_answer = pending()
    clock = MovedClock()
    with pytest.raises(PairingOver, match="new one"):
        await await_approval(client, STARTED, clock, clock.sleep)
    assert 900 <= clock.time <= 940


async def test_a_refusal_that_waiting_does_not_cure_is_raised(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    coordinator.pair_answer = refusal("invalid-request", "no such device")
    clock = MovedClock()
    with pytest.raises(ProblemError, match="no such device"):
        await await_approval(client, STARTED, clock, clock.sleep)
