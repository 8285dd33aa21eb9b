"""The worker's durable memory: one object for the core, the jobs and the delivery.

All methods run on the event loop of the core and none blocks it: the file belongs to a thread of its own. What is
awaited is on disk when the call returns. Events are the exception: they get their number at once and are written
together every 250 ms; :class:`Appended` has the future of that commit.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from worker_core.journal import aside, histories, outbox, tables
from worker_core.journal.budget import OUTBOX_LIMIT_BYTES
from worker_core.journal.database import Database
from worker_core.journal.driver import Connection
from worker_core.journal.histories import History
from worker_core.journal.numbering import Numbering
from worker_core.journal.records import (
    Appended,
    ArtifactKind,
    AttemptEnd,
    AttemptRow,
    CheckpointRow,
    EventSlice,
    HistoryAttempt,
    JournalFull,
    NewAttempt,
    SetAside,
    UploadRow,
    UploadState,
)
from worker_core.journal.series import Buckets
from worker_core.journal.start import read_start
from worker_core.journal.writer import Writer
from worker_core.wire.codec import encode
from worker_core.wire.events import Dropped, Event, Gap, Metric
from worker_core.wire.frames import Done
from worker_core.wire.session import AttemptPhase
from worker_core.wire.vocabulary import Mode
from worker_core.wire.work import Completion, OutboxSize, Release

MAX_FACT_CHARS = 64 * 1024
_LOCAL_MODE = "local-mode"


class Journal:
    """Attempts, events, uploads, endings, metric histories and facts of one worker."""

    def __init__(self, database: Database, boot_id: str, wall: Callable[[], float], limit_bytes: int) -> None:
        start = database.run_now(lambda connection: read_start(connection, boot_id, wall()))
        self._database = database
        self._wall = wall
        self._numbering = Numbering(limit_bytes)
        self._histories: dict[str, History] = {}
        self._uncertain = start.uncertain
        self._facts = start.facts
        self._upload_bytes = start.upload_bytes
        for held in start.held:
            self._numbering.hold(held.attempt_id, held.next_seq, *held.untaken)
            self._histories[held.attempt_id] = held.history
        self._writer = Writer(database, self._numbering, self._histories)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        boot_id: str,
        wall: Callable[[], float] = time.time,
        outbox_limit_bytes: int = OUTBOX_LIMIT_BYTES,
    ) -> "Journal":
        """Open or create the file; raises :class:`worker_core.journal.records.JournalError` when it cannot be used."""
        return cls(Database(path), boot_id, wall, outbox_limit_bytes)

    @property
    def fault(self) -> str:
        """Why nothing can be written now, as a sentence; empty when all is well."""
        return str(self._writer.fault or "")

    @property
    def full(self) -> bool:
        """Whether nothing can be written because the disk has no room."""
        return isinstance(self._writer.fault, JournalFull)

    @property
    def stalled_s(self) -> float:
        """How long events have waited for a disk that is slow, or takes nothing."""
        return self._writer.stalled_s

    @property
    def crowded(self) -> bool:
        """Whether the outbox has outgrown its budget and has not come well below it since."""
        return self._numbering.budget.crowded

    @property
    def budget_bytes(self) -> int:
        """What may wait for the coordinator before lines are thinned."""
        return self._numbering.budget.limit

    def set_budget(self, limit_bytes: int) -> None:
        """Change what may wait for the coordinator, because the disk has more or less room now."""
        self._numbering.budget.limit = limit_bytes
        self._numbering.budget.note(self._numbering.used_bytes)

    def used_bytes(self) -> int:
        """Return what the events that wait take of the disk, about."""
        return self._numbering.used_bytes

    async def close(self) -> None:
        """Write what waits and close the file, which is closed too when nothing can be written."""
        try:
            await self._writer.close()
        finally:
            await self._database.close()

    # Attempts

    async def add_attempt(self, attempt: NewAttempt) -> None:
        """Keep an accepted attempt, before anything of it runs."""
        created = self._wall()
        await self._writer.write(lambda connection: tables.insert_attempt(connection, attempt, created))
        self._numbering.hold(attempt.attempt_id, 0, 0, 0)
        self._histories[attempt.attempt_id] = History()

    async def attempts(self) -> list[AttemptRow]:
        """Return the attempts that are not forgotten, oldest first."""
        return await self._writer.read(tables.held_attempts)

    async def attempt(self, attempt_id: str) -> AttemptRow | None:
        """Return one attempt, unless it is forgotten."""
        return await self._writer.read(lambda connection: tables.held_attempt(connection, attempt_id))

    async def knows_attempt(self, attempt_id: str) -> bool:
        """Tell whether an attempt was ever taken here, so that a repeated offer starts nothing twice."""
        return await self._writer.read(lambda connection: tables.knows_attempt(connection, attempt_id))

    async def set_process(self, attempt_id: str, pid: int, started: float) -> None:
        """Keep which process the job is; ``started`` tells it from a later one with the same number."""

        def act(connection: Connection) -> None:
            tables.set_column(connection, attempt_id, "pid", pid)
            tables.set_column(connection, attempt_id, "pid_started", started)

        await self._writer.write(act)

    async def set_phase(self, attempt_id: str, phase: AttemptPhase) -> None:
        """Keep how far an attempt is."""
        await self._set(attempt_id, "phase", phase)

    async def set_done(self, attempt_id: str, done: Done) -> None:
        """Keep the job's own last word, so that a crash of ours cannot change how the job ended."""
        await self._set(attempt_id, "done", done)

    async def set_end(self, attempt_id: str, end: AttemptEnd) -> None:
        """Keep how the attempt ended here, with all its events."""
        self._numbering.tell_dropped(attempt_id, self._wall())
        await self._set(attempt_id, "ended", end)
        await self._writer.save_histories()

    async def set_checkpoint(self, attempt_id: str, checkpoint: CheckpointRow, upload: UploadRow) -> None:
        """Keep a checkpoint whose file is complete among the blobs, and that it is to be uploaded."""

        def act(connection: Connection) -> None:
            tables.set_column(connection, attempt_id, "checkpoint", checkpoint)
            tables.insert_upload(connection, upload)

        await self._write_uploads(act)

    async def forget_attempt(self, attempt_id: str) -> None:
        """Remove an attempt that the coordinator has recorded; its metric history stays."""
        await self._writer.save_histories()
        self._numbering.drop(attempt_id)
        self._histories.pop(attempt_id, None)
        self._uncertain.discard(attempt_id)

        def act(connection: Connection) -> None:
            tables.forget_attempt(connection, attempt_id)
            histories.prune_histories(connection)

        await self._write_uploads(act)

    # Events

    def append(self, attempt_id: str, event: Event) -> Appended:
        """Take an event; one of an attempt that is gone, or that the outbox has no room for, is left out."""
        if isinstance(event, Metric) and (history := self._histories.get(attempt_id)):
            history.add(event)
        seq = self._numbering.add(attempt_id, event, self._wall())
        return Appended(seq, self._writer.next_commit())

    def committed(self) -> asyncio.Future[None]:
        """Return the future of the commit that will have all events taken so far."""
        return self._writer.next_commit()

    def next_seq(self, attempt_id: str) -> int:
        """Return the number the next event will get; after the end of an attempt, the number of its events."""
        return self._numbering.next_seq(attempt_id)

    async def next_events(
        self, attempt_id: str, *, max_events: int = 500, max_bytes: int = 256 * 1024
    ) -> EventSlice | None:
        """Return the events to send next, or None."""

        def act(connection: Connection) -> EventSlice | None:
            found = outbox.read_slice(connection, attempt_id, max_events, max_bytes)
            if found is not None:
                # In the journal's thread: a thinning that follows in this thread sees it.
                self._numbering.note_sent(attempt_id, found.seq_of(len(found.events)))
            return found

        return await self._writer.read(act)

    async def events_taken(self, attempt_id: str, next_seq: int) -> None:
        """Note that the coordinator has everything below ``next_seq`` (also the answer to a probe)."""
        if attempt_id in self._uncertain:
            await self._writer.realign(attempt_id, next_seq)
            self._uncertain.discard(attempt_id)
        here = self._numbering.next_seq(attempt_id)
        if next_seq > here > 0:
            self._numbering.shift(attempt_id, here, next_seq - here)
            reason = f"the coordinator has events up to {next_seq - 1}, this workstation only up to {here - 1}"
            self.append(attempt_id, Gap(ts=self._wall(), reason=reason))
        taken = await self._writer.write(
            lambda connection: outbox.take_events(connection, attempt_id, next_seq), durable=False
        )
        self._numbering.taken(attempt_id, *taken)

    async def replace_event(self, attempt_id: str, seq: int, reason: str) -> None:
        """Put a marker in the place of an event that the coordinator refuses, and set the event aside by name."""
        body = encode(Dropped(ts=self._wall(), what="event", count=1, reason=reason))

        def act(connection: Connection) -> int:
            replaced = outbox.replace_event(connection, attempt_id, seq, body)
            if replaced is None:
                return 0
            event, freed = replaced
            aside.note_aside(connection, self._aside(attempt_id, aside.name_of(event, seq), reason))
            return freed

        self._numbering.taken(attempt_id, 0, await self._writer.write(act))

    async def set_aside(self, attempt_id: str, what: str, reason: str) -> None:
        """Keep the name of something that will not be delivered, and why."""
        item = self._aside(attempt_id, what, reason)
        await self._writer.write(lambda connection: aside.note_aside(connection, item))

    async def set_aside_items(self) -> list[SetAside]:
        """Return what was set aside, newest first."""
        return await self._writer.read(aside.list_aside)

    def outbox(self) -> OutboxSize:
        """Return what the coordinator still lacks."""
        events, size = self._numbering.outbox()
        return OutboxSize(events=events, bytes=size + self._upload_bytes)

    # Uploads and endings

    async def add_upload(self, upload: UploadRow) -> None:
        """Keep that a file among the blobs is to be uploaded."""
        await self._write_uploads(lambda connection: tables.insert_upload(connection, upload))

    async def uploads(self, attempt_id: str | None = None, *, unfinished: bool = True) -> list[UploadRow]:
        """Return uploads of one attempt or of all, in the order in which they were added."""
        return await self._writer.read(lambda connection: tables.list_uploads(connection, attempt_id, unfinished))

    async def set_upload(
        self,
        attempt_id: str,
        sha256: str,
        *,
        only: tuple[ArtifactKind, str] | None = None,
        state: UploadState,
        artifact_id: str | None = None,
        upload_id: str | None = None,
        reason: str = "",
    ) -> None:
        """Keep how far the uploads of these bytes are, or ``only`` the one of this kind and name."""
        ids = (artifact_id, upload_id)
        await self._write_uploads(
            lambda connection: tables.update_upload(connection, attempt_id, sha256, only, state, reason, ids)
        )

    async def put_completion(self, attempt_id: str, completion: Completion) -> None:
        """Keep what will be said to the coordinator about the end, before it is said."""
        await self._put_ending(attempt_id, "completion", completion)

    async def completion(self, attempt_id: str) -> Completion | None:
        """Return what :meth:`put_completion` kept."""
        return await self._writer.read(
            lambda connection: tables.read_ending(connection, attempt_id, "completion", Completion)
        )

    async def put_release(self, attempt_id: str, release: Release) -> None:
        """Keep that the job is to be given back, before it is."""
        await self._put_ending(attempt_id, "released", release)

    async def release(self, attempt_id: str) -> Release | None:
        """Return what :meth:`put_release` kept."""
        return await self._writer.read(
            lambda connection: tables.read_ending(connection, attempt_id, "released", Release)
        )

    # Mode and facts

    def local_mode(self) -> Mode:
        """Return the workstation's own wanted mode."""
        text = self._facts.get(_LOCAL_MODE)
        return text if text == "drain" or text == "stop" else "run"

    async def set_local_mode(self, mode: Mode) -> None:
        """Keep the workstation's own wanted mode."""
        await self.set_fact(_LOCAL_MODE, mode)

    def fact(self, name: str) -> str | None:
        """Return a text that was kept under ``name``."""
        return self._facts.get(name)

    async def set_fact(self, name: str, text: str | None) -> None:
        """Keep a text under ``name``; None removes it."""
        if text is not None and len(text) > MAX_FACT_CHARS:
            raise ValueError(f"the fact {name} has {len(text)} characters; the limit is {MAX_FACT_CHARS}")
        await self._writer.write(lambda connection: tables.put_fact(connection, name, text))
        if text is None:
            self._facts.pop(name, None)
        else:
            self._facts[name] = text

    async def wipe(self) -> None:
        """Remove everything but the workstation's mode, so that nothing of it can be read from the file."""
        self._numbering.drop_all()
        self._histories.clear()
        self._uncertain.clear()
        mode = self.local_mode()
        await self._write_uploads(tables.delete_all)
        self._facts.clear()
        await self.set_local_mode(mode)
        await self._database.scrub()

    # Metric histories

    async def history(self, attempt_id: str, names: Iterable[str] = (), max_buckets: int = 600) -> dict[str, Buckets]:
        """Return the series of an attempt, present or past; no names means all."""
        history = self._histories.get(attempt_id)
        if history is None:
            history = await self._writer.read(lambda connection: History.load(connection, attempt_id))
        return history.read(names, max_buckets)

    async def history_attempts(self) -> list[HistoryAttempt]:
        """Return the attempts whose metrics can be shown, newest first."""
        listed = await self._writer.read(histories.list_history)
        return [self._with_present_names(attempt) for attempt in listed]

    def _with_present_names(self, attempt: HistoryAttempt) -> HistoryAttempt:
        held = self._histories.get(attempt.attempt_id)
        return attempt if held is None else msgspec.structs.replace(attempt, names=tuple(sorted(held.names())))

    def _aside(self, attempt_id: str, what: str, reason: str) -> SetAside:
        return SetAside(attempt_id=attempt_id, what=what, reason=reason, at=self._wall())

    async def _set(self, attempt_id: str, column: str, value: object) -> None:
        await self._writer.write(lambda connection: tables.set_column(connection, attempt_id, column, value))

    async def _put_ending(self, attempt_id: str, column: str, body: msgspec.Struct) -> None:
        await self._writer.write(lambda connection: tables.put_ending(connection, attempt_id, column, body))

    async def _write_uploads(self, act: Callable[[Connection], None]) -> None:
        def act_and_measure(connection: Connection) -> int:
            act(connection)
            return tables.waiting_bytes(connection)

        self._upload_bytes = await self._writer.write(act_and_measure)
