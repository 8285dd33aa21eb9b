"""A coordinator that gives this worker no work: because its version is too old, or its key was copied."""

from typing import Any

from scripted_coordinator import refusal  # pyright: ignore[reportMissingImports]


async def test_a_worker_that_is_too_old_ends_its_job_and_says_what_it_needs(bench: Any) -> None:
    worker = await bench.start_paired()
    attempt = bench.offer(steps=60, pause_s=0.02)
    await bench.until(lambda: bench.coordinator.events[attempt])
    too_old = refusal("upgrade-required", "this coordinator gives jobs to version 9 and later", retry_after_s=0.2)
    bench.coordinator.script("POST", "/v1/poll", *[too_old] * 1000)
    await bench.until(lambda: worker.known.life.outdated)
    status = worker.status()
    assert (status.state, status.reasons) == ("draining", ("upgrade-required",))
    done = await bench.until(lambda: bench.coordinator.completions.get(attempt))
    assert done.outcome == "succeeded"
    await bench.until_state("problem")
    assert "newer Stoker" in worker.status().detail
    assert worker.known.life.takes_work is False
    bench.coordinator._rules.clear()
    await bench.until_state("available")
    await bench.until(lambda: worker.status().reasons == ())


async def test_a_copied_key_takes_no_work_and_leaves_the_running_job_alone(bench: Any) -> None:
    worker = await bench.start_paired()
    attempt = bench.offer(steps=100_000, pause_s=0.02)
    await bench.until(lambda: bench.coordinator.events[attempt])
    copied = [refusal("credential-conflict", "another machine uses this key", retry_after_s=0.2)] * 1000
    bench.coordinator.script("POST", "/v1/sessions", *copied)
    bench.coordinator.script("POST", "/v1/poll", refusal("session-replaced"))
    await bench.until(lambda: worker.known.life.standing == "conflict")
    (process, *_) = bench.processes_of(attempt)
    polls = len(bench.coordinator.polls)
    status = worker.status()
    assert (status.state, "credential-conflict" in status.reasons) == ("training", True)
    await bench.until(lambda: bench.coordinator.count("POST", "/v1/sessions") >= 4)
    assert process.is_running()
    assert len(bench.coordinator.polls) == polls, "no polls until a person has decided"
    bench.coordinator._rules.clear()
    await bench.until(lambda: worker.known.life.phase == "busy" and worker.known.life.standing == "connected")
    assert process.is_running()
    await bench.until(lambda: worker.status().reasons == ())
