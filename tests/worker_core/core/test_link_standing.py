"""How a worker stands with its coordinator, told apart: wrong clock, revoked, expired, another coordinator, no line."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_coordinator import Answer, html, refusal  # pyright: ignore[reportMissingImports]

from worker_core.core.errand import PATIENCE_S, Errand
from worker_core.link.contact import Contact
from worker_core.machine.clocks import SystemClock
from worker_core.machine.sources import SETTING

ALL = ("GET", "POST", "PATCH", "DELETE", "HEAD")
SetClock = Callable[[float], object]


@pytest.fixture
def set_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Set this computer's date, in seconds from the true one."""
    script = tmp_path / "sources.json"
    script.write_text("{}")
    monkeypatch.setenv(SETTING, str(script))
    return lambda offset_s: script.write_text(json.dumps({"wall_offset_s": offset_s}))


def always(bench: Any, answer: Any) -> None:
    for method in ALL:
        bench.coordinator.script(method, ".*", *[answer] * 500)


async def until_told(bench: Any, reason: str, timeout_s: float = 20.0) -> str:
    status = await bench.until(
        lambda: (found := bench.worker.status()) and reason in found.reasons and found, timeout_s=timeout_s
    )
    return status.detail


async def test_four_causes_have_four_different_messages(set_clock: SetClock, bench: Any) -> None:
    worker = await bench.start_paired()
    told: dict[str, str] = {}
    set_clock(-2 * 3600.0)
    worker.known.contact.report()
    told["clock wrong"] = await until_told(bench, "clock-wrong")
    set_clock(0)
    worker.known.contact.report()
    await bench.until(lambda: "clock-wrong" not in worker.status().reasons)
    bench.coordinator.remaining_s = 0.0
    worker.known.contact.report()
    await bench.until_state("expired")
    told["expired"] = worker.status().detail
    bench.coordinator.remaining_s = 86400.0
    worker.known.contact.report()
    await bench.until_state("available")
    bench.coordinator.script("POST", "/v1/(poll|heartbeat)", *[refusal("session-ended", action="new_session")] * 2)
    bench.coordinator.script("POST", "/v1/sessions", refusal("worker-unknown"))
    told["wrong coordinator"] = await until_told(bench, "cannot-authenticate")
    await bench.until_state("available")
    bench.coordinator.revoke("sold")
    await bench.until_state("revoked")
    told["revoked"] = worker.status().detail
    assert "2 h behind the coordinator's" in told["clock wrong"]
    assert "expired" in told["expired"]
    assert "does not know this worker" in told["wrong coordinator"]
    assert "Revoked by ada@example.org" in told["revoked"]
    assert len(set(told.values())) == 4


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (html(200), "wrong-coordinator", "not as a Stoker coordinator does"),
        (html(504), "wrong-coordinator", "tried again"),
        (refusal("worker-revoked"), "wrong-coordinator", "without proof"),
        (Answer(raw=b""), "coordinator-unreachable", "tried again"),
    ],
    ids=["a portal", "a gateway", "a forger", "a line that breaks"],
)
async def test_what_is_not_the_coordinator_is_told_and_nothing_is_lost(
    bench: Any, answer: Any, reason: str, words: str
) -> None:
    worker = await bench.start_paired()
    always(bench, answer)
    worker.known.contact.report()
    assert words in await until_told(bench, reason)
    assert bench.paths.credential_file.exists()
    assert worker.known.enrollment is not None
    bench.coordinator._rules.clear()
    await bench.until_state("available")
    await bench.until(lambda: worker.status().detail == "")


@pytest.mark.parametrize("code", ["worker-unknown", "bad-proof", "token-expired", "not-signed-in"])
async def test_one_stray_refusal_keeps_the_credential(bench: Any, code: str) -> None:
    worker = await bench.start_paired()
    bench.coordinator.script("POST", "/v1/poll", refusal(code))
    worker.known.contact.poll_anew()
    polls = bench.coordinator.count("POST", "/v1/poll")
    await bench.until(lambda: bench.coordinator.count("POST", "/v1/poll") > polls + 1)
    await bench.until_state("available")
    assert bench.paths.credential_file.exists()


@pytest.mark.parametrize("wrong", ["1970", "a day ahead"])
async def test_a_clock_that_is_wrong_at_boot_and_then_set_wipes_nothing(
    set_clock: SetClock, bench: Any, wrong: str
) -> None:
    await bench.start_paired()
    await bench.stop()
    set_clock(-time.time() if wrong == "1970" else 86400.0)
    worker = await bench.start()
    await bench.until_state("available")
    assert "clock-wrong" in worker.status().reasons
    set_clock(0)
    worker.known.contact.report()
    await bench.until(lambda: "clock-wrong" not in worker.status().reasons)
    attempt = bench.offer(steps=3)
    assert (await bench.until(lambda: bench.coordinator.completions.get(attempt))).outcome == "succeeded"
    assert bench.paths.credential_file.exists()


async def test_a_clock_that_jumps_a_month_while_waiting_does_not_lengthen_the_wait(
    set_clock: SetClock, bench: Any
) -> None:
    worker = await bench.start_paired()
    bench.coordinator.script("POST", "/v1/poll", *[Answer(raw=b"")] * 3)
    worker.known.contact.poll_anew()
    await bench.until(lambda: not bench.coordinator._rules[-1][2])
    set_clock(30 * 86400.0)
    polls = len(bench.coordinator.polls)
    set_clock(0)
    await bench.until(lambda: len(bench.coordinator.polls) > polls, timeout_s=30)


async def test_a_core_that_was_blocked_while_the_clock_moved_ends_no_job(set_clock: SetClock, bench: Any) -> None:
    attempt = bench.coordinator.offer('{"steps": 100, "pause_s": 0.02}')
    await bench.start_paired()
    await bench.until(lambda: len(bench.coordinator.events[attempt]) > 5)
    run = bench.worker._slot._run
    run._watch.limits = type(run._limits)(max_runtime_s=3600, max_disk_bytes=1 << 30, stop_grace_s=5, silence_s=1.5)
    time.sleep(2.5)  # noqa: ASYNC251 - the whole core stands still
    set_clock(3600.0)
    done = await bench.until(lambda: bench.coordinator.completions.get(attempt), timeout_s=40)
    assert done.outcome == "succeeded"


async def test_a_line_that_swallows_everything_is_given_up(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that is never answered, on a line that stays open, as behind a router that forgot it."""
    monkeypatch.setattr("worker_core.link.contact._POLL_SLACK_S", 0.5)
    bench.coordinator.params = type(bench.coordinator.params)(
        poll_wait_s=0.5, poll_read_timeout_s=1.0, heartbeat_s=0.2, retry_cap_s=1.0
    )

    async def swallow(_: Any) -> None:
        await asyncio.sleep(3600)

    await bench.start_paired()
    assert isinstance(bench.worker.known.contact, Contact)
    bench.coordinator.script("POST", "/v1/poll", swallow)
    bench.worker.known.contact.poll_anew()
    await bench.until(lambda: not bench.coordinator._rules[-1][2])
    began, polls = SystemClock().now(), bench.coordinator.polls_answered
    await bench.until(lambda: bench.coordinator.polls_answered > polls, timeout_s=45)
    assert SystemClock().now() - began < 10


async def test_one_job_with_a_credential_that_nobody_accepts_ends_in_words_and_keeps_it(bench: Any) -> None:
    await bench.start_paired()
    await bench.stop()
    always(bench, refusal("worker-unknown"))
    worker = await bench.start(once=True)
    errand = Errand(worker, patience_s=1.0)
    assert PATIENCE_S + 10 < 30
    async with asyncio.timeout(20):
        await errand.watch()
        await worker.left.wait()
    assert "does not know this worker" in errand.why_not
    assert bench.paths.credential_file.exists()


async def test_one_job_waits_for_a_network_that_is_down(bench: Any) -> None:
    await bench.start_paired()
    await bench.stop()
    always(bench, Answer(raw=b""))
    errand = Errand(await bench.start(once=True), patience_s=0.5)
    watching = asyncio.create_task(errand.watch())
    await until_told(bench, "coordinator-unreachable")
    await asyncio.sleep(1.2)
    assert not watching.done()
    watching.cancel()


async def test_one_job_is_not_waited_for_once_the_worker_is_revoked(bench: Any) -> None:
    errand = Errand(await bench.start_paired(), patience_s=60)
    bench.coordinator.revoke("sold")
    async with asyncio.timeout(20):
        await errand.watch()
    assert "Revoked by" in errand.why_not
