"""Looks after the GPUs: tests them before jobs and after sleep, watches their memory, keeps broken ones out of work.

What may be done with a device is decided by :mod:`.gpu_rules`; this part asks the driver, runs the tests, keeps what
must outlive the core in the journal, and says which devices a job gets, by UUID. On a machine without GPUs nothing of
this runs.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from worker_core.core import gpu_rules as rules
from worker_core.core.gpu_needs import GpuNeed
from worker_core.core.gpu_rules import GpuState, KeptGpu, Tested
from worker_core.core.tasks import Tasks
from worker_core.jobs.runtime import Runtime, RuntimeMissing
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, JournalError
from worker_core.machine.clocks import Clock
from worker_core.machine.gpu_probe import probe_gpu
from worker_core.machine.gpu_session import gpu_session_obstacle
from worker_core.machine.sources import GpuSource
from worker_core.wire.codec import BadMessage, decode, encode
from worker_core.wire.frames import JobError
from worker_core.wire.probe import ProbeResult
from worker_core.wire.status import GpuShown
from worker_core.wire.vocabulary import Reason

log = logging.getLogger(__name__)

GPU_REASONS: tuple[Reason, ...] = ("gpu-session", "gpu-quarantined", "gpu-untested", "gpu-memory-held", "gpu-busy")
SETTLED_WITHIN_S = 30.0
"""How long an ended job's memory may take to come back."""
TEST_TIMEOUT_S = 60.0
"""A healthy GPU answers within seconds; importing torch on a busy computer may take most of this."""
_LOOK_EVERY_S = 0.5
_FACT = "gpus"


@dataclass(frozen=True)
class Assigned:
    """The GPUs of one job; ``uuids`` is None where the machine has none."""

    uuids: tuple[str, ...] | None = None
    used_before: tuple[int, ...] = ()


class NoGpu(Exception):
    """A job that needs a GPU can have none now; ``error`` is how its attempt ends."""

    def __init__(self, error: JobError) -> None:
        super().__init__(error.message)
        self.error = error


class GpuCare:
    """The GPUs of one worker."""

    def __init__(
        self,
        source: GpuSource,
        journal: Journal,
        clock: Clock,
        resolve_runtime: Callable[[], Runtime],
        changed: Callable[[], None],
    ) -> None:
        self._source = source
        self._journal = journal
        self._clock = clock
        self._resolve_runtime = resolve_runtime
        self._changed = changed
        self._states = _restore(journal.fact(_FACT))
        self._written = self._text()
        self._seen: tuple[GpuShown, ...] = ()
        self._session = ""
        self._asked_session = False
        self._told: tuple[str, ...] = ()
        self._in_use: set[str] = set()
        self._tests = asyncio.Lock()
        self._tasks = Tasks("GPU care")

    # What others ask

    def shown(self) -> tuple[GpuShown, ...]:
        """Return the GPUs as they were seen last, each with what holds it back."""
        return tuple(msgspec.structs.replace(gpu, held=self._hold(gpu)) for gpu in self._seen)

    def held(self) -> tuple[str, ...]:
        """Return the UUIDs of the GPUs that no job may have now."""
        return tuple(gpu.uuid for gpu in self._seen if self._hold(gpu) is not None)

    def troubles(self) -> dict[Reason, str]:
        """Return what holds GPUs back, each with a sentence; several devices of one kind share the first one's."""
        found: dict[Reason, str] = {}
        for gpu in self._seen:
            reason = self._hold(gpu)
            if reason is not None and reason not in found:
                told = self._session if reason == "gpu-session" else rules.sentence(reason, gpu.name, self._of(gpu))
                found[reason] = told
        return found

    # What happens

    def observe(self, gpus: tuple[GpuShown, ...]) -> None:
        """Take in the newest readings, and begin the tests that are due."""
        self._seen = tuple(gpu for gpu in gpus if gpu.uuid)
        if self._seen and not self._asked_session:
            self._session, self._asked_session = gpu_session_obstacle(), True
        now = self._clock.now()
        for gpu in self._seen:
            rules.observe(self._of(gpu), gpu, now, in_use=gpu.uuid in self._in_use)
        if any(rules.due_test(self._of(gpu), now) for gpu in self._free()) and not self._tests.locked():
            self._tasks.start(self._run_due_tests())
        self._tell()

    def woke(self) -> None:
        """The computer slept: no job gets a GPU before that has passed a test."""
        if self._probe_command() is None:
            return
        for gpu in self._seen:
            rules.woke(self._of(gpu), self._clock.now())
        self.observe(self._seen)

    async def retest(self) -> list[tuple[GpuShown, ProbeResult]]:
        """Test every GPU that no job has, because a person asked; a device that passes is taken again."""
        found = [(gpu, await self._test(gpu, "asked")) for gpu in self._free()]
        await self._keep()
        self._tell()
        return found

    # A job

    async def assign(self, need: GpuNeed, given_up: asyncio.Event) -> Assigned:
        """Return the GPUs of a job, each tested just now; raises :class:`NoGpu`.

        ``given_up`` ends a test that is not wanted any more: the job is then not started anyhow.
        """
        if not self._seen:
            return Assigned()
        if need.count == 0:
            return Assigned(())
        finding, giving_up = asyncio.ensure_future(self._find(need)), asyncio.ensure_future(given_up.wait())
        try:
            await asyncio.wait({finding, giving_up}, return_when=asyncio.FIRST_COMPLETED)
            return finding.result() if finding.done() else Assigned(())
        finally:
            giving_up.cancel()
            finding.cancel()
            await asyncio.gather(finding, giving_up, return_exceptions=True)
            await self._keep()
            self._tell()

    async def lend(self, assigned: Assigned, run: Coroutine[Any, Any, AttemptEnd]) -> AttemptEnd:
        """Run a job with its GPUs; when its processes are gone, see in the background that their memory comes back."""
        end: AttemptEnd | None = None
        try:
            end = await run
            return end
        finally:
            if assigned.uuids:
                self._tasks.start(self._settle(assigned, end))

    async def close(self) -> None:
        """End what runs in the background."""
        await self._tasks.end()

    # Parts

    async def _find(self, need: GpuNeed) -> Assigned:
        chosen: list[str] = []
        failed = ProbeResult(ok=False, failure="device-lost", text="")
        async with self._tests:  # a job's memory that is still being given back is waited for
            for gpu in self._candidates():
                result = await self._test_held(gpu, "before-job")
                if result.ok and (result.total_bytes == 0 or result.free_bytes >= need.min_vram_bytes):
                    chosen.append(gpu.uuid)
                else:
                    failed = _too_small(result, need) if result.ok else result
                if len(chosen) == need.count:
                    break
            if len(chosen) < need.count and need.must:
                raise NoGpu(self._why_none(failed))
            used = {gpu.uuid: gpu.memory_used_bytes or 0 for gpu in await self._read()}
            self._in_use.update(chosen)
        return Assigned(tuple(chosen), tuple(used.get(uuid, 0) for uuid in chosen))

    def _why_none(self, failed: ProbeResult) -> JobError:
        reasons = "; ".join(self.troubles().values())
        text = failed.text and f"The GPU failed its test before the job: {failed.text}."
        failure = failed.failure or "device-lost"
        if failure == "gpu-out-of-memory":
            failure = "start-failed"  # others use its memory just now, which says nothing about the job
        return JobError(failure=failure, message=text or f"No GPU of this worker can be used now. {reasons}".strip())

    async def _settle(self, assigned: Assigned, end: AttemptEnd | None) -> None:
        error = end.error if end is not None else None
        failure, text = (error.failure, error.message) if error is not None else (None, "")
        trained = end is not None and end.usage.steps > 0
        async with self._tests:
            left = await self._await_memory(assigned)
            for uuid, before in zip(assigned.uuids or (), assigned.used_before, strict=True):
                state = self._states.setdefault(uuid, GpuState())
                rules.job_ended(state, failure, text, trained=trained)
                if uuid in left:
                    rules.leftover(state, before)
                    log.warning("memory of %s was not given back %.0f s after its job", uuid, SETTLED_WITHIN_S)
            self._in_use.difference_update(assigned.uuids or ())
        await self._keep()
        self._tell()

    async def _await_memory(self, assigned: Assigned) -> set[str]:
        """Return the GPUs whose memory has not come back in time."""
        limits = dict(zip(assigned.uuids or (), assigned.used_before, strict=True))
        deadline = self._clock.awake() + SETTLED_WITHIN_S
        while True:
            used = {gpu.uuid: gpu.memory_used_bytes or 0 for gpu in await self._read()}
            left = {uuid for uuid, before in limits.items() if used.get(uuid, 0) > before + rules.LEFTOVER_BYTES}
            if not left or self._clock.awake() > deadline:
                return left
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _run_due_tests(self) -> None:
        for gpu in self._free():
            why = rules.due_test(self._of(gpu), self._clock.now())
            if why is not None:
                result = await self._test(gpu, why)
                log.info("the GPU %s was tested (%s): %s", gpu.uuid, why, "passed" if result.ok else result.text)
        await self._keep()
        self._tell()

    async def _test(self, gpu: GpuShown, why: Tested) -> ProbeResult:
        async with self._tests:
            return await self._test_held(gpu, why)

    async def _test_held(self, gpu: GpuShown, why: Tested) -> ProbeResult:
        """Test a GPU while no other test runs."""
        result = self._source.scripted_probe(gpu.uuid)
        command = self._probe_command()
        if result is None:
            result = ProbeResult(ok=True) if command is None else await probe_gpu(command, gpu.uuid, TEST_TIMEOUT_S)
        rules.take_test(self._of(gpu), why, result, self._clock.now())
        return result

    async def _read(self) -> tuple[GpuShown, ...]:
        return await asyncio.to_thread(self._source.load)

    def _tell(self) -> None:
        """Let others know when a device was taken out of work or comes back."""
        held = self.held()
        if held != self._told:
            self._told = held
            self._changed()

    async def _keep(self) -> None:
        """Write down what must outlive this core, when it changed."""
        text = self._text()
        if text == self._written:
            return
        try:
            await self._journal.set_fact(_FACT, text)
            self._written = text
        except JournalError as error:
            log.warning("what is known of the GPUs cannot be kept: %s", error)  # it holds until this core ends

    def _text(self) -> str:
        return encode({uuid: rules.kept(state) for uuid, state in self._states.items()}).decode()

    def _candidates(self) -> Sequence[GpuShown]:
        return [gpu for gpu in self._free() if self._hold(gpu) is None]

    def _free(self) -> Sequence[GpuShown]:
        return [gpu for gpu in self._seen if gpu.uuid not in self._in_use]

    def _hold(self, gpu: GpuShown) -> Reason | None:
        return "gpu-session" if self._session else rules.hold(self._of(gpu))

    def _of(self, gpu: GpuShown) -> GpuState:
        return self._states.setdefault(gpu.uuid, GpuState())

    def _probe_command(self) -> Sequence[str] | None:
        try:
            return self._resolve_runtime().probe or None
        except RuntimeMissing:
            return None


def _too_small(result: ProbeResult, need: GpuNeed) -> ProbeResult:
    free, wanted = f"{result.free_bytes / (1 << 30):.1f} GiB", f"{need.min_vram_bytes / (1 << 30):.1f} GiB"
    text = f"only {free} of its memory are free and the job asks for {wanted}"
    return ProbeResult(ok=False, failure="gpu-out-of-memory", text=text)


def _restore(text: str | None) -> dict[str, GpuState]:
    try:
        found = decode(text or "{}", dict[str, KeptGpu])
    except BadMessage as error:
        log.warning("what was known of the GPUs cannot be read: %s", error)
        found = {}
    return {uuid: rules.restored(one) for uuid, one in found.items()}
