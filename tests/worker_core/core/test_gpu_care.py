"""GPUs are tested in throw-away processes, given to jobs by UUID, and kept out of work while they are unfit for it."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from worker_core.control.messages import Request
from worker_core.core.gpu_care import Assigned, GpuCare, NoGpu
from worker_core.core.gpu_needs import GpuNeed
from worker_core.core.operations import CoreOperations
from worker_core.jobs.job import job_environment
from worker_core.jobs.runtime import Runtime
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd
from worker_core.machine.clocks import SystemClock
from worker_core.machine.gpu_session import of_windows_session
from worker_core.machine.sources import SETTING
from worker_core.wire.codec import encode
from worker_core.wire.failure_rules import rule_of
from worker_core.wire.frames import JobError, Usage
from worker_core.wire.pairing import Gpu
from worker_core.wire.probe import ProbeResult
from worker_core.wire.status import GpuShown

GIB = 1 << 30
MUST = GpuNeed(1, must=True)
LOST = ProbeResult(ok=False, failure="device-lost", text="CUDA unknown error")
GONE = AttemptEnd(how="finished", outcome="failed", error=JobError(failure="device-lost", message="GPU is lost"))
TRAINED = AttemptEnd(how="finished", outcome="succeeded", usage=Usage(steps=10))
PASSES = "import os, json; print(json.dumps({'ok': True, 'name': os.environ['CUDA_VISIBLE_DEVICES']}))"


def gpu(number: int, used_gib: float = 1.0, driver: str = "550.1") -> GpuShown:
    return GpuShown(
        uuid=f"GPU-{number}",
        name=f"Card {number}",
        memory_bytes=16 * GIB,
        memory_used_bytes=int(used_gib * GIB),
        driver=driver,
    )


class Cards:
    """GPUs as a test wants them."""

    def __init__(self, *gpus: GpuShown) -> None:
        self.gpus = gpus
        self.probes: dict[str, ProbeResult] | None = {}
        self.tested: list[str] = []
        self.silent = False

    def facts(self) -> tuple[Gpu, ...]:
        return ()

    def load(self) -> tuple[GpuShown, ...]:
        return self.gpus

    def scripted_probe(self, uuid: str) -> ProbeResult | None:
        self.tested.append(uuid)
        return None if self.probes is None else self.probes.get(uuid, ProbeResult(ok=True))


class Desk:
    """A GPU care over cards of a test, with its journal."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.db"
        self.cards = Cards(gpu(1))
        self.probe: tuple[str, ...] = (sys.executable, "-c", PASSES)
        self.changes = 0
        self.care: GpuCare
        self._journal: Journal | None = None

    async def open(self) -> GpuCare:
        await self.close()
        self._journal = Journal.open(self.path, boot_id="boot")
        runtime = lambda: Runtime(("job",), self.probe)  # noqa: E731
        self.care = GpuCare(self.cards, self._journal, SystemClock(), runtime, self._note)
        self.look()
        return self.care

    def look(self) -> None:
        self.care.observe(self.cards.load())

    async def job(self, end: AttemptEnd) -> Assigned:
        """Let one job have its GPUs and end."""
        assigned = await self.care.assign(MUST, asyncio.Event())
        await self.care.lend(assigned, _ended(end))
        await self.settled()
        return assigned

    async def settled(self) -> None:
        while tasks := self.care._tasks._tasks:
            await asyncio.wait(set(tasks))

    async def close(self) -> None:
        if self._journal is not None:
            await self.care.close()
            await self._journal.close()
            self._journal = None

    def _note(self) -> None:
        self.changes += 1


async def _ended(end: AttemptEnd) -> AttemptEnd:
    return end


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    await made.open()
    yield made
    await made.close()


async def test_a_machine_without_gpus_tests_nothing(desk: Desk) -> None:
    desk.cards = Cards()
    care = await desk.open()
    care.woke()
    assert await care.assign(MUST, asyncio.Event()) == Assigned(None)
    assert (care.held(), desk.cards.tested) == ((), [])


async def test_a_job_gets_the_device_that_passed_its_test_by_uuid(desk: Desk, tmp_path: Path) -> None:
    desk.cards = Cards(*(gpu(number) for number in range(13)))
    care = await desk.open()
    desk.cards.gpus = tuple(card for card in desk.cards.gpus if card.uuid != "GPU-0")  # taken out of the machine
    desk.look()
    desk.cards.probes = {"GPU-1": LOST}
    assigned = await care.assign(MUST, asyncio.Event())
    assert assigned.uuids == ("GPU-2",)
    env = job_environment(tmp_path, "att_1", assigned.uuids)
    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == ("GPU-2", "PCI_BUS_ID")
    more = await care.assign(GpuNeed(2, must=True), asyncio.Event())
    assert more.uuids == ("GPU-3", "GPU-4")


async def test_a_job_for_the_processor_sees_no_gpu_and_tests_none(desk: Desk) -> None:
    assert await desk.care.assign(GpuNeed(0), asyncio.Event()) == Assigned(())
    assert desk.cards.tested == []


async def test_three_device_failures_in_a_row_quarantine_a_gpu_also_for_the_next_core(desk: Desk) -> None:
    for _ in range(3):
        await desk.job(GONE)
    assert desk.care.held() == ("GPU-1",)
    assert "GPU is lost" in desk.care.troubles()["gpu-quarantined"]
    assert desk.changes == 1
    care = await desk.open()
    assert care.held() == ("GPU-1",)
    assert care.shown()[0].held == "gpu-quarantined"
    with pytest.raises(NoGpu) as refused:
        await care.assign(MUST, asyncio.Event())
    assert refused.value.error.failure == "device-lost"
    # What can do without goes on, on the processor.
    assert (await care.assign(GpuNeed(), asyncio.Event())).uuids == ()


async def test_a_failed_test_before_a_job_counts_and_a_trained_job_ends_the_row(desk: Desk) -> None:
    for ends in (GONE, GONE, TRAINED, GONE, GONE):
        await desk.job(ends)
    assert desk.care.held() == ()
    desk.cards.probes = {"GPU-1": LOST}
    with pytest.raises(NoGpu, match="CUDA unknown error"):
        await desk.care.assign(MUST, asyncio.Event())
    assert desk.care.held() == ("GPU-1",)


async def test_a_person_asks_for_a_new_test_and_a_device_that_passes_is_back(desk: Desk) -> None:
    for _ in range(3):
        await desk.job(GONE)
    desk.cards.probes = {"GPU-1": LOST}
    assert [result.ok for _, result in await desk.care.retest()] == [False]
    assert desk.care.held() == ("GPU-1",)
    desk.cards.probes = {}
    assert [result.ok for _, result in await desk.care.retest()] == [True]
    assert desk.care.held() == ()
    assert (await desk.open()).held() == ()


async def test_a_new_driver_is_tried_by_itself(desk: Desk) -> None:
    for _ in range(3):
        await desk.job(GONE)
    desk.cards.gpus = (gpu(1, driver="560.9"),)
    desk.look()
    await desk.settled()
    assert desk.care.held() == ()


async def test_after_sleep_no_job_gets_a_gpu_before_it_passed_a_test(desk: Desk) -> None:
    desk.care.woke()
    assert desk.care.held() == ("GPU-1",)
    assert "gpu-untested" in desk.care.troubles()
    await desk.settled()
    assert (desk.care.held(), desk.cards.tested) == ((), ["GPU-1"])


async def test_memory_that_does_not_come_back_holds_the_device(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker_core.core.gpu_care.SETTLED_WITHIN_S", 0.3)
    assigned = await desk.care.assign(MUST, asyncio.Event())
    desk.cards.gpus = (gpu(1, used_gib=5),)
    await desk.care.lend(assigned, _ended(TRAINED))
    await desk.settled()
    desk.look()
    assert desk.care.held() == ("GPU-1",)
    assert "gpu-memory-held" in desk.care.troubles()
    desk.cards.gpus = (gpu(1),)
    desk.look()
    assert desk.care.held() == ()


async def test_a_second_job_waits_for_the_memory_of_the_first(desk: Desk) -> None:
    assigned = await desk.care.assign(MUST, asyncio.Event())
    desk.cards.gpus = (gpu(1, used_gib=5),)
    await desk.care.lend(assigned, _ended(TRAINED))
    waiting = asyncio.ensure_future(desk.care.assign(MUST, asyncio.Event()))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    desk.cards.gpus = (gpu(1),)
    assert (await waiting).uuids == ("GPU-1",)


async def test_memory_that_others_use_just_now_does_not_fail_the_job_for_good(desk: Desk) -> None:
    crowded = ProbeResult(ok=False, failure="gpu-out-of-memory", text="only 12 MiB of its memory are free")
    desk.cards.probes = {"GPU-1": crowded}
    with pytest.raises(NoGpu, match="12 MiB") as refused:
        await desk.care.assign(MUST, asyncio.Event())
    assert rule_of(refused.value.error.failure).retry == "again"
    assert desk.care.held() == ()


async def test_a_gpu_with_too_little_free_memory_is_not_called_broken(desk: Desk) -> None:
    desk.cards.probes = {"GPU-1": ProbeResult(ok=True, free_bytes=2 * GIB, total_bytes=16 * GIB)}
    with pytest.raises(NoGpu) as refused:
        await desk.care.assign(GpuNeed(1, must=True, min_vram_bytes=8 * GIB), asyncio.Event())
    assert refused.value.error.failure == "start-failed"
    assert "2.0 GiB" in refused.value.error.message
    assert "8.0 GiB" in refused.value.error.message
    assert desk.care.held() == ()


async def test_a_worker_that_runs_as_a_service_claims_no_gpu_and_says_why(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker_core.core.gpu_care.gpu_session_obstacle", lambda: of_windows_session(0))
    care = await desk.open()
    assert care.held() == ("GPU-1",)
    assert "log on" in care.troubles()["gpu-session"]
    with pytest.raises(NoGpu, match="log on"):
        await care.assign(MUST, asyncio.Event())


async def test_what_the_journal_says_of_gpus_need_not_make_sense(desk: Desk) -> None:
    assert desk._journal is not None
    await desk._journal.set_fact("gpus", '{"GPU-1": 7}')
    assert (await desk.open()).held() == ()


# The test itself, in real processes


@pytest.mark.parametrize(
    ("code", "ok", "failure", "words"),
    [
        (PASSES, True, None, ""),
        ("print('{\"ok\": false, \"failure\": \"unsupported-gpu\", \"text\": \"no kernel\"}')", False,
         "unsupported-gpu", "no kernel"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", False, "device-lost", "SIGSEGV"),
        ("raise SystemExit('no torch here')", False, "start-failed", "no torch here"),
        ("print('not json')", False, "start-failed", "exit code 0"),
    ],
)  # fmt: skip
async def test_whatever_the_test_process_does_it_has_a_result(
    desk: Desk, code: str, ok: bool, failure: str | None, words: str
) -> None:
    desk.cards.probes, desk.probe = None, (sys.executable, "-c", code)
    ((_, result),) = await desk.care.retest()
    assert (result.ok, result.failure) == (ok, failure)
    assert words in result.text


async def test_the_test_sees_just_its_device(desk: Desk) -> None:
    desk.cards.probes = None
    ((card, result),) = await desk.care.retest()
    assert result.name == card.uuid


async def test_a_test_that_hangs_is_killed_and_the_device_counts_as_lost(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    hangs = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    desk.cards.probes, desk.probe = None, (sys.executable, "-c", hangs)
    monkeypatch.setattr("worker_core.core.gpu_care.TEST_TIMEOUT_S", 3.0)
    ((_, result),) = await desk.care.retest()
    assert (result.failure, "did not answer" in result.text) == ("device-lost", True)
    await until(lambda: not psutil.pid_exists(int(pid.read_text())))


async def test_a_job_that_is_given_up_meanwhile_does_not_wait_for_the_test(desk: Desk, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hangs = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    desk.cards.probes, desk.probe = None, (sys.executable, "-c", hangs)
    given_up = asyncio.Event()
    assigning = asyncio.ensure_future(desk.care.assign(MUST, given_up))
    await until(lambda: pid.exists() and bool(pid.read_text()))
    began = time.monotonic()
    given_up.set()
    assert (await assigning).uuids == ()
    assert time.monotonic() - began < 2
    await until(lambda: not psutil.pid_exists(int(pid.read_text())))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what another process does is no event of ours
            await asyncio.sleep(0.02)


# The whole worker


def script(path: Path, **changes: Any) -> None:
    draft = path.with_suffix(".new")
    draft.write_bytes(encode(changes))
    os.replace(draft, path)


async def test_a_worker_with_a_broken_gpu_says_so_and_goes_on_with_jobs_for_the_processor(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources.json"
    monkeypatch.setenv(SETTING, str(sources))
    script(sources, gpus=[msgspec.to_builtins(gpu(1))], probes={"GPU-1": msgspec.to_builtins(LOST)})
    worker = await bench.start_paired()
    needy = {"target": {"gpu": {"count": 1}}}
    for _ in range(3):
        attempt = bench.offer(**needy)
        await bench.until(lambda attempt=attempt: attempt in bench.coordinator.completions)
        assert bench.coordinator.completions[attempt].error.failure == "device-lost"
    assert worker.status().state == "problem"
    assert worker.status().reasons == ("gpu-quarantined",)
    assert "--retest-gpu" in worker.status().detail
    await bench.until(lambda: bench.coordinator.polls[-1].held_gpus == ("GPU-1",))
    assert bench.coordinator.polls[-1].free_slots == 1
    plain = bench.offer(training={"device": "cpu"})
    await bench.until(lambda: plain in bench.coordinator.completions)
    assert bench.coordinator.completions[plain].outcome == "succeeded"
    script(sources, gpus=[msgspec.to_builtins(gpu(1))])
    answer: Any = await CoreOperations(worker, None).perform(Request(id="req_1", op="retest-gpu"))  # type: ignore[arg-type]
    assert [(tested.uuid, tested.ok) for tested in answer.gpus] == [("GPU-1", True)]
    assert worker.status().state == "available"
    await bench.until(lambda: bench.coordinator.polls[-1].held_gpus == ())
