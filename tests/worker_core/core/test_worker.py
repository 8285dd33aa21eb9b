"""A whole worker against a scripted coordinator: real HTTP, real job processes, a real journal."""

from typing import Any

import msgspec
import pytest

from worker_core.machine.keystore import Absent, open_store


def metrics(events: list[Any]) -> list[int]:
    return [event.step for event in events if type(event).__name__ == "Metric"]


async def test_a_paired_worker_takes_a_job_and_delivers_all_of_it(bench: Any) -> None:
    worker = await bench.start_paired()
    attempt = bench.offer(steps=25)
    done = await bench.until(lambda: bench.coordinator.completions.get(attempt))
    assert done.outcome == "succeeded"
    assert metrics(bench.coordinator.events[attempt]) == list(range(1, 26))
    assert done.final_seq == len(bench.coordinator.events[attempt])
    uploaded = bench.coordinator.artifacts[attempt]
    named = {uploaded[sha256] for sha256 in done.artifacts}
    # An older checkpoint may be given up on its way when the next is there; these two never.
    assert {b"result at step 25" * 50, b"checkpoint at step 20" * 50} <= named
    await bench.until_state("available")
    await bench.until(lambda: not (bench.paths.workspaces / attempt).exists())
    assert await worker.journal.attempts() == []
    assert worker.status().job_ends == 1


async def test_drain_in_mid_job_lets_it_finish_and_takes_nothing_new(bench: Any) -> None:
    await bench.start_paired()
    first = bench.offer(steps=60)
    await bench.until(lambda: metrics(bench.coordinator.events[first]))
    bench.coordinator.set_mode("drain")
    await bench.until_state("draining")
    second = bench.offer(steps=5)
    await bench.until(lambda: first in bench.coordinator.completions)
    await bench.until_state("paused")
    assert "drained" in bench.worker.status().reasons
    assert second not in bench.coordinator.accepted
    bench.coordinator.set_mode("run")
    await bench.until(lambda: second in bench.coordinator.completions)


async def test_stop_saves_a_checkpoint_frees_the_slot_and_gives_the_job_back(bench: Any) -> None:
    worker = await bench.start_paired()
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: len(metrics(bench.coordinator.events[attempt])) > 15)
    await worker.set_mode("stop", False)
    release = await bench.until(lambda: bench.coordinator.releases.get(attempt))
    assert release.reason == "stopped"
    saved = bench.coordinator.artifacts[attempt][release.checkpoint]
    assert saved.startswith(b"checkpoint at step %d" % release.step)
    assert release.step >= max(metrics(bench.coordinator.events[attempt])) - 1
    assert attempt not in bench.coordinator.completions
    await bench.until_state("paused")
    assert "stopped" in worker.status().reasons
    assert bench.processes_of(attempt) == []


async def test_a_job_that_ignores_stop_is_ended_at_the_grace_and_its_last_checkpoint_counts(bench: Any) -> None:
    from worker_core.wire.work import Limits

    worker = await bench.start_paired()
    limits = Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=1)
    attempt = bench.coordinator.offer('{"steps": 10000, "deaf": true}', limits=limits)
    await bench.until(lambda: len(metrics(bench.coordinator.events[attempt])) > 25)
    await worker.set_mode("stop", False)
    release = await bench.until(lambda: bench.coordinator.releases.get(attempt))
    assert release.step % 10 == 0
    assert bench.processes_of(attempt) == []


async def test_the_mode_set_here_survives_a_restart_and_only_this_side_lifts_it(bench: Any) -> None:
    worker = await bench.start_paired()
    await worker.set_mode("drain", False)
    await bench.stop()
    await bench.start()
    await bench.until_state("paused")
    assert bench.coordinator.sessions[-1].local_mode == "drain"
    bench.coordinator.set_mode("run")
    attempt = bench.offer()
    await bench.until(lambda: bench.coordinator.polls[-1].observed.rev == bench.coordinator.rev)
    assert bench.worker.status().state == "paused"
    await bench.worker.set_mode("run", False)
    await bench.until(lambda: attempt in bench.coordinator.completions)


async def test_a_cancelled_job_ends_and_is_reported_as_cancelled(bench: Any) -> None:
    await bench.start_paired()
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: metrics(bench.coordinator.events[attempt]))
    bench.coordinator.verdicts[attempt] = "cancel"
    done = await bench.until(lambda: bench.coordinator.completions.get(attempt))
    assert done.outcome == "canceled"
    assert bench.processes_of(attempt) == []
    await bench.until_state("available")


async def test_a_superseded_job_is_ended_at_once_and_nothing_of_it_is_sent(bench: Any) -> None:
    worker = await bench.start_paired()
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: metrics(bench.coordinator.events[attempt]))
    bench.coordinator.verdicts[attempt] = "superseded"
    await bench.until(lambda: worker.known.life.phase == "ready")
    assert bench.processes_of(attempt) == []
    assert attempt not in bench.coordinator.completions
    assert attempt not in bench.coordinator.releases
    assert await worker.journal.attempts() == []


async def test_a_revoked_worker_ends_its_job_and_forgets_its_key(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    worker = await bench.start_paired()
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: metrics(bench.coordinator.events[attempt]))
    bench.coordinator.revoke("sold")
    await bench.until_state("revoked")
    await bench.until(lambda: bench.processes_of(attempt) == [], timeout_s=6)
    await bench.until(lambda: isinstance(open_store(bench.paths, "file").load(), Absent))
    await bench.until(lambda: worker.journal.fact("farewell") and not worker.journal.fact("enrollment"))
    assert await worker.journal.attempts() == []
    await bench.until(lambda: not list(bench.paths.workspaces.glob("att_*")))
    assert "ada@example.org" in worker.status().detail
    assert "sold" in worker.status().detail
    await bench.until(lambda: "all workspaces of" in caplog.text)
    assert "stays for a day" not in caplog.text
    await bench.until(lambda: bench.coordinator.connections and not bench.coordinator._lines)
    seen = len(bench.coordinator.seen)
    await bench.stop()
    await bench.start()
    assert bench.worker.status().state == "revoked"
    assert len(bench.coordinator.seen) == seen


async def test_a_job_that_raises_is_a_failure_with_its_words(bench: Any) -> None:
    await bench.start_paired()
    attempt = bench.offer(steps=3, **{"raise": "the reward is not a number"})
    done = await bench.until(lambda: bench.coordinator.completions.get(attempt))
    assert done.outcome == "failed"
    assert done.error.failure == "exception"
    await bench.until_state("available")


async def test_training_goes_on_without_the_coordinator_and_everything_arrives_later(bench: Any) -> None:
    worker = await bench.start_paired()
    attempt = bench.offer(steps=120, pause_s=0.02)
    await bench.until(lambda: metrics(bench.coordinator.events[attempt]))
    port = bench.coordinator.port
    await bench.coordinator.stop()
    step = worker.status().job.step
    await bench.until(lambda: worker.status().job.step > step + 20)
    await bench.until(lambda: "coordinator-unreachable" in worker.status().reasons)
    assert worker.status().state == "training"
    await bench.coordinator.start(port)
    done = await bench.until(lambda: bench.coordinator.completions.get(attempt))
    assert done.outcome == "succeeded"
    assert metrics(bench.coordinator.events[attempt]) == list(range(1, 121))


async def test_an_offer_altered_on_the_way_is_not_run(bench: Any) -> None:
    worker = await bench.start_paired()

    def other_spec(seen: Any) -> Any:

        from worker_core.wire.codec import decode, encode
        from worker_core.wire.work import Accepted

        accepted = bench.coordinator.accepted[attempt] = bench.coordinator.offers.popleft()[1]
        altered = decode(encode(accepted).replace(b"steps", b"stepz"), Accepted)
        return bench.coordinator.message(altered)

    bench.coordinator.script("POST", ".*/accept", other_spec)
    attempt = bench.offer()
    done = await bench.until(lambda: bench.coordinator.completions.get(attempt))
    assert done.outcome == "failed"
    assert "signed" in done.error.message
    assert await worker.journal.attempts() == []
    await bench.until_state("available")


async def test_an_offer_signed_by_a_stranger_is_not_answered(bench: Any) -> None:
    from joserfc.jwk import OKPKey

    await bench.start_paired()
    honest, bench.coordinator.key = bench.coordinator.key, OKPKey.generate_key("Ed25519")
    attempt = bench.offer()
    polls = len(bench.coordinator.polls)
    await bench.until(lambda: len(bench.coordinator.polls) > polls + 1)
    assert attempt not in bench.coordinator.accepted
    bench.coordinator.key = honest
    await bench.until(lambda: attempt in bench.coordinator.completions)


async def test_leaving_in_mid_job_gives_it_back_with_its_checkpoint_and_says_goodbye(bench: Any) -> None:
    await bench.start_paired()
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: len(metrics(bench.coordinator.events[attempt])) > 5)
    await bench.stop("checkpoint")
    release = bench.coordinator.releases[attempt]
    assert release.reason == "shutdown"
    assert release.checkpoint is not None
    assert bench.coordinator.count("DELETE", "/v1/sessions/.*") == 1


async def test_no_poll_is_ever_broken_off_to_tell_a_change(bench: Any) -> None:
    bench.coordinator.params = msgspec.structs.replace(bench.coordinator.params, poll_wait_s=20.0)
    worker = await bench.start_paired()
    await bench.until(lambda: len(bench.coordinator.polls) == 1)
    for mode in ("drain", "run", "drain"):
        beats = len(bench.coordinator.heartbeats)
        await worker.set_mode(mode, False)
        await bench.until(lambda beats=beats: len(bench.coordinator.heartbeats) > beats)
        assert bench.coordinator.heartbeats[-1].local_mode == mode
    await bench.until(lambda: bench.coordinator.polls_answered == len(bench.coordinator.polls) - 1)
    assert bench.coordinator.connections <= 5


async def test_the_next_job_is_taken_as_soon_as_the_slot_is_free_however_long_polls_are(bench: Any) -> None:
    bench.coordinator.params = msgspec.structs.replace(bench.coordinator.params, poll_wait_s=60.0)
    await bench.start_paired()
    first, second = bench.offer(steps=5), bench.offer(steps=5)
    await bench.until(lambda: {first, second} <= set(bench.coordinator.completions), timeout_s=30)


async def test_an_expired_authorization_takes_nothing_and_renewal_resumes(bench: Any) -> None:
    bench.coordinator.remaining_s = 0.0
    worker = await bench.start_paired()
    await bench.until_state("expired")
    attempt = bench.offer()
    assert worker.known.life.takes_work is False
    bench.coordinator.remaining_s = 1000.0
    bench.coordinator.set_mode("run")
    await bench.until(lambda: attempt in bench.coordinator.completions)


async def test_unpairing_tells_the_coordinator_and_leaves_nothing(bench: Any) -> None:
    worker = await bench.start_paired()
    assert await worker.unpair() is True
    assert bench.coordinator.count("DELETE", "/v1/worker") == 1
    await bench.until(lambda: isinstance(open_store(bench.paths, "file").load(), Absent))
    assert worker.status().state == "unpaired"


async def test_a_worker_started_for_one_job_leaves_after_it(bench: Any) -> None:
    await bench.start_paired()
    await bench.stop()
    await bench.start(once=True)
    attempt = bench.offer(steps=5)
    await bench.until(lambda: bench.worker.left.is_set())
    assert bench.coordinator.completions[attempt].outcome == "succeeded"


async def test_a_job_that_is_stopped_says_nothing_of_the_failures_before_it(bench: Any) -> None:
    worker = await bench.start_paired()
    worker.known.failures_in_a_row = 2
    stopped = bench.offer(steps=10_000)
    await bench.until(lambda: metrics(bench.coordinator.events[stopped]))
    await worker.set_mode("stop", False)
    await bench.until(lambda: bench.coordinator.releases.get(stopped))
    assert worker.known.failures_in_a_row == 2
    await worker.set_mode("run", False)
    finished = bench.offer(steps=3)
    await bench.until(lambda: bench.coordinator.completions.get(finished))
    assert worker.known.failures_in_a_row == 0
