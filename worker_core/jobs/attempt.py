"""Runs one attempt: makes its workspace, starts its job, keeps what the job says, and sees it to its end.

The job's life is one coroutine, :meth:`AttemptRun.run`. What to do when is decided by :mod:`.watch`, what the end
means by :mod:`.ending`; both are pure. Everything that waits for the disk goes on by itself when there is room again.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception_type, wait_fixed

from worker_core.jobs.artifacts import BadArtifact, take_artifact
from worker_core.jobs.channel import FrameChannel
from worker_core.jobs.ending import Seen, classify, last_words
from worker_core.jobs.evidence import out_of_memory_in, out_of_memory_kills
from worker_core.jobs.job import StartedJob, start_job
from worker_core.jobs.meter import Meter
from worker_core.jobs.output import OutputLog
from worker_core.jobs.pipes import PipeReader
from worker_core.jobs.process import ProcessIdentity, TreeEnd
from worker_core.jobs.runtime import Runtime
from worker_core.jobs.sandbox.confinement import Confinement
from worker_core.jobs.stall import HealthDesk
from worker_core.jobs.watch import NO_USE, Action, Watch
from worker_core.jobs.workspace import Fetch, NotPrepared, is_disk_full, make_workspace
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, JournalError, NewAttempt
from worker_core.machine.child_exit import bury, wait_exit
from worker_core.machine.clocks import Clock
from worker_core.machine.paths import Paths
from worker_core.wire.codec import BadMessage
from worker_core.wire.events import CheckpointSaved, Flag, Log, Metric, Status
from worker_core.wire.frames import ArtifactReady, Done, Frame, JobError, Usage
from worker_core.wire.session import AttemptPhase
from worker_core.wire.status import FlagShown

log = logging.getLogger(__name__)

_WATCH_STEP_S = 0.25
_KILL_LIMIT_S = 20.0
_DRAIN_LIMIT_S = 5.0
_LEAVE_LIMIT_S = 10.0
"""How long a job may stay after its last word."""
_JOURNAL_RETRY_S = 2.0


@dataclass(frozen=True)
class AttemptProgress:
    """Where an attempt is; ``label`` is the job's own word for it."""

    phase: AttemptPhase
    label: str = ""
    step: int = 0
    progress: float = 0.0
    eta_s: float | None = None
    checkpoint_step: int | None = None
    checkpoint_age_s: float | None = None
    flags: tuple[FlagShown, ...] = ()


class AttemptRun:
    """One attempt at work. :meth:`stop` and :meth:`kill` may come at any time, also before :meth:`run`."""

    def __init__(
        self,
        row: NewAttempt,
        *,
        paths: Paths,
        journal: Journal,
        runtime: Runtime,
        fetch: Fetch,
        clock: Clock,
        on_change: Callable[[], None],
        on_metric: Callable[[Metric], None],
        devices: Sequence[str] | None = None,
        confinement: Confinement | None = None,
    ) -> None:
        self._row = row
        self._paths = paths
        self._journal = journal
        self._runtime = runtime
        self._fetch = fetch
        self._clock = clock
        self._on_change = on_change
        self._on_metric = on_metric
        self._devices = devices
        self._confinement = confinement or Confinement()
        self._limits = row.accepted.limits
        self._watch = Watch(self._limits)
        self._health = HealthDesk(self._limits)
        self._log = OutputLog(journal, row.attempt_id, clock)
        self._phase: AttemptPhase = "starting"
        self._status = Status(ts=0.0, phase="")
        self._checkpoint: tuple[int, float] | None = None
        self._done: Done | None = None
        self._spoke = False
        self._keeping = False
        self._trouble = ""
        self._leaving = asyncio.Event()
        self._job: StartedJob | None = None
        self._channel: FrameChannel | None = None
        self._ended: asyncio.Future[TreeEnd] | None = None
        self._meter: Meter | None = None
        self.left: tuple[int, ...] = ()
        """Processes of the job that could not be ended."""

    @property
    def progress(self) -> AttemptProgress:
        """Where the attempt is now."""
        step, saved = self._checkpoint or (None, None)
        return AttemptProgress(
            phase=self._phase,
            label=self._status.phase,
            step=self._status.step,
            progress=self._status.progress,
            eta_s=self._status.eta_s,
            checkpoint_step=step,
            checkpoint_age_s=None if saved is None else self._clock.now() - saved,
            flags=self._health.flags,
        )

    @property
    def identity(self) -> ProcessIdentity | None:
        """The first process of the job, once it is started."""
        return self._job.identity if self._job else None

    def stop(self, grace_s: float | None = None) -> None:
        """Let the job save and leave; what is left of it after the grace is killed."""
        self._perform(self._watch.stop("asked", self._limits.stop_grace_s if grace_s is None else grace_s))
        self._leaving.set()

    def kill(self) -> None:
        """End the whole tree at once."""
        self._perform(self._watch.kill())
        self._leaving.set()

    def checkpoint_now(self) -> None:
        """Ask the job, once it runs, for a checkpoint at its next chance."""
        if self._channel:
            self._channel.order("checkpoint", self._limits.stop_grace_s)

    async def run(self) -> AttemptEnd:
        """Run the attempt to its end; on return its processes are gone and the journal knows everything."""
        try:
            workspace = await self._prepare()
            end = await self._run_job(workspace) if workspace else AttemptEnd(how="stopped")
        except NotPrepared as error:
            failed = JobError(failure=error.failure, message=str(error))
            end = AttemptEnd(how="finished", outcome="failed", error=failed)
        for words in last_words(end):
            self._log.say(words)
        self._set_phase("finishing")
        await self._insist(lambda: self._journal.set_end(self._row.attempt_id, end))
        return end

    # Start

    async def _prepare(self) -> Path | None:
        """Make the workspace; None when the job is not wanted any more."""
        making = asyncio.ensure_future(make_workspace(self._paths, self._row, self._fetch))
        leaving = asyncio.ensure_future(self._leaving.wait())
        await asyncio.wait({making, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if self._leaving.is_set():
            # A request is never cancelled: it goes on, and the next sweep removes what it still makes.
            making.add_done_callback(_forget_result)
            return None
        return await making

    async def _run_job(self, workspace: Path) -> AttemptEnd:
        kills_before = out_of_memory_kills()
        job = await self._start(workspace)
        self._job, self._channel = job, FrameChannel(job.frames, job.orders, self._row.attempt_id)
        self._meter = Meter(job, workspace)
        self._catch_up()
        readers = [PipeReader(job.stdout, "stdout of a job"), PipeReader(job.stderr, "stderr of a job")]
        following = [
            asyncio.ensure_future(self._follow_frames(workspace)),
            asyncio.ensure_future(self._log.follow("stdout", readers[0])),
            asyncio.ensure_future(self._log.follow("stderr", readers[1])),
        ]
        measuring = asyncio.ensure_future(self._meter.run())
        try:
            await self._note_process(job)
            code = await self._watch_until_exit(job)
            starved = out_of_memory_kills() > kills_before or out_of_memory_in(job.held.group) > 0
            tree = await self._end_tree(job)
            await self._drain(following)
        finally:
            for task in (*following, measuring):
                task.cancel()
            for end in (self._channel, *readers, job.held):
                end.close()
            bury(job.process)
        self._log.end()
        self.left = tree.left
        return classify(self._seen(code, tree, starved))

    async def _start(self, workspace: Path) -> StartedJob:
        row = self._row
        cell = self._confinement.cell(workspace, row.attempt_id, self._limits, self._devices, self._runtime)
        self._watch.max_memory_bytes, self._watch.max_processes = cell.memory_bytes, cell.processes
        starting = asyncio.ensure_future(
            asyncio.to_thread(start_job, self._runtime, cell, self._confinement.containment)
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_close_unwatched)
            raise
        except OSError as error:
            failure = "disk-full" if is_disk_full(error) else "start-failed"
            raise NotPrepared(failure, f"The job process cannot be started: {error}.") from error

    def _catch_up(self) -> None:
        """Do what was asked for while the process was being started."""
        if self._watch.killed:
            self._perform("kill")
        elif self._watch.cause is not None:
            self._perform("order-stop")

    async def _note_process(self, job: StartedJob) -> None:
        attempt_id, identity = self._row.attempt_id, job.identity
        self._set_phase("running")
        self._log.say(f"job process {identity.pid} started")
        await self._insist(lambda: self._journal.set_process(attempt_id, identity.pid, identity.started))
        await self._insist(lambda: self._journal.set_phase(attempt_id, "running"))

    # Watching

    async def _watch_until_exit(self, job: StartedJob) -> int | None:
        exited = asyncio.ensure_future(wait_exit(job.process))
        before = self._clock.awake()
        while not exited.done():
            await asyncio.wait({exited}, timeout=_WATCH_STEP_S)
            now = self._clock.awake()
            if waits_for_us := bool(self._journal.fault):
                self._watch.heard()  # a job whose frames cannot be acknowledged waits for us
            self._perform(self._watch.tick(now - before, self._meter.use if self._meter else NO_USE))
            self._flag(self._health.tick(now - before, self._clock.wall(), excused=waits_for_us))
            before = now
            if self._ended and self._ended.done() and not exited.done() and self._ended.result().left:
                exited.cancel()
                return None  # it does not die, whatever we do: the end says so
        return job.held.exit_code(exited.result())

    def _perform(self, action: Action | None) -> None:
        if action is None:
            return
        self._set_phase("stopping")
        if action == "order-stop" and self._channel:
            self._channel.order("stop", self._watch.grace_s)
        elif action == "kill" and self._job:
            self._begin_end(self._job.kill)

    def _begin_end(self, end: Callable[[float], TreeEnd]) -> asyncio.Future[TreeEnd]:
        self._ended = asyncio.ensure_future(asyncio.to_thread(end, _KILL_LIMIT_S))
        return self._ended

    async def _end_tree(self, job: StartedJob) -> TreeEnd:
        """Kill what is left when the main process is gone, and wait until nothing is."""
        before = (await self._ended).killed if self._ended else 0
        last = await self._begin_end(job.end_tree)
        return TreeEnd(before + last.killed, last.left)

    async def _drain(self, following: Sequence[asyncio.Future[None]]) -> None:
        """Let what the job said last arrive. A frame that is being kept is waited for, a pipe that is held open not."""
        waiting = True
        while waiting:
            _, pending = await asyncio.wait(following, timeout=_DRAIN_LIMIT_S)
            waiting = bool(pending) and self._keeping

    # What the job says

    async def _follow_frames(self, workspace: Path) -> None:
        assert self._channel is not None
        try:
            async for frame in self._channel.frames():
                self._spoke = self._keeping = True
                if self._health.is_sign_of_life(frame.body):
                    self._watch.heard()
                try:
                    await self._take(self._channel, workspace, frame)
                finally:
                    self._keeping = False
        except (BadMessage, BadArtifact) as error:
            self._trouble = str(error)
            self._perform(self._watch.kill("broken"))
        except OSError as error:
            self._trouble = f"a file of the job could not be kept ({error})"
            self._perform(self._watch.kill("full" if is_disk_full(error) else "broken"))
        except Exception as error:
            # A fault of ours; but a job to which nobody listens any more must not go on.
            log.exception("a frame of %s cannot be kept", self._row.attempt_id)
            self._trouble = f"a frame could not be kept ({error!r})"
            self._perform(self._watch.kill("broken"))

    async def _take(self, channel: FrameChannel, workspace: Path, frame: Frame) -> None:
        attempt_id, body = self._row.attempt_id, frame.body
        match body:
            case ArtifactReady():
                await self._working(self._take_artifact(workspace, body))
                channel.ack(frame.id)
            case Done():
                self._done = body
                self._watch.stop("left", _LEAVE_LIMIT_S)  # no order is needed: it leaves by itself, or is ended
                await self._insist(lambda: self._journal.set_done(attempt_id, body))
                channel.ack(frame.id)
            case Log():
                self._log.keep(body.stream, body.text)
                channel.ack_after(frame.id, self._journal.committed())
            case _:
                channel.ack_after(frame.id, self._journal.append(attempt_id, body).committed)
        self._notice(body)

    def _notice(self, body: object) -> None:
        if isinstance(body, Metric):
            self._on_metric(body)
        elif isinstance(body, Status):
            self._status = body
            self._health.saw(body)
            self._on_change()
        elif isinstance(body, CheckpointSaved):
            self._checkpoint = (body.step, self._clock.now())
            self._on_change()
        elif isinstance(body, Flag):
            if self._health.take(body):
                self._perform(self._watch.stop("stalled", self._limits.stop_grace_s))
            self._on_change()

    def _flag(self, flag: Flag | None) -> None:
        if flag is not None:
            self._journal.append(self._row.attempt_id, flag)
            self._notice(flag)

    async def _take_artifact(self, workspace: Path, ready: ArtifactReady) -> None:
        now = self._clock.wall()
        await self._insist(
            lambda: take_artifact(self._paths, self._journal, self._row.attempt_id, workspace, ready, now)
        )

    async def _working(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something long; the job is not silent meanwhile, it is we who do not listen."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_WATCH_STEP_S)
                self._watch.heard()
            task.result()
        finally:
            task.cancel()

    async def _insist(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Write, and while the journal cannot (full disk) wait and try again: nothing that must be kept is given up."""
        trying = AsyncRetrying(retry=retry_if_exception_type(JournalError), wait=wait_fixed(_JOURNAL_RETRY_S))
        async for attempt in trying:
            with attempt:
                await write()

    # End

    def _seen(self, code: int | None, tree: TreeEnd, out_of_memory: bool) -> Seen:
        return Seen(
            limits=self._limits,
            usage=Usage(seconds=self._watch.running_s, steps=self._status.step),
            done=self._done,
            exit=code,
            cause=self._watch.cause,
            killed=self._watch.killed,
            trouble=self._trouble,
            spoke=self._spoke,
            out_of_memory=out_of_memory,
            tail=self._log.tail,
            leftovers=tree.killed,
            survivors=tree.left,
            max_memory_bytes=self._watch.max_memory_bytes or 0,
            max_processes=self._watch.max_processes or 0,
        )

    def _set_phase(self, phase: AttemptPhase) -> None:
        if phase != self._phase and self._phase != "finishing":
            self._phase = phase
            self._on_change()


def _close_unwatched(starting: "asyncio.Future[StartedJob]") -> None:
    """Close our ends of the pipes of a job to which nobody listens: it leaves by itself."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()
        bury(starting.result().process)


def _forget_result(task: "asyncio.Future[Path]") -> None:
    # Asking for the exception keeps asyncio from reporting one that nobody needs any more.
    if not task.cancelled():
        task.exception()
