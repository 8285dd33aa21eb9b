"""What a job prints, as log events: bounded lines, at most so many a second, and the last ones kept for a failure."""

import time
from collections import deque

from worker_core.jobs.lines import LINES_PER_SECOND, LineRate, LineSplitter
from worker_core.jobs.pipes import PipeReader
from worker_core.journal.journal import Journal
from worker_core.machine.clocks import Clock
from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.wire.events import MAX_LINE_BYTES, Dropped, Log, LogStream
from worker_core.wire.vocabulary import Word

_TAIL_LINES = 20
_TAIL_LINE_CHARS = 400


class OutputLog:
    """The log of one attempt."""

    def __init__(self, journal: Journal, attempt_id: str, clock: Clock) -> None:
        self._journal = journal
        self._attempt_id = attempt_id
        self._clock = clock
        self._rate = LineRate()
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)

    @property
    def tail(self) -> str:
        """The last lines the job printed."""
        return "\n".join(KNOWN_SECRETS.redact(line)[:_TAIL_LINE_CHARS] for line in self._tail)

    async def follow(self, stream: LogStream, reader: PipeReader) -> None:
        """Keep every line of a pipe until it ends."""
        splitter = LineSplitter(KNOWN_SECRETS)
        async for data in reader.chunks():
            for line in splitter.feed(data, time.monotonic()):
                self.keep(stream, line)
        for line in splitter.close():
            self.keep(stream, line)

    def keep(self, stream: Word, line: str) -> None:
        """Keep one line of the job without secrets, cut at 8 KiB, if there are not too many."""
        self._tail.append(line)
        if self._rate.admit(time.monotonic()):
            line = KNOWN_SECRETS.redact(line)
            if len(line) * 4 > MAX_LINE_BYTES:
                line = line.encode()[:MAX_LINE_BYTES].decode(errors="ignore")
            # Lines are refused until the end of a second, so these came before this one.
            self._note_dropped(self._rate.take_dropped())
            self._journal.append(self._attempt_id, Log(ts=self._clock.wall(), stream=stream, text=line))

    def say(self, text: str) -> None:
        """Add a line of our own."""
        said = Log(ts=self._clock.wall(), stream="stoker", text=KNOWN_SECRETS.redact(text))
        self._journal.append(self._attempt_id, said)

    def end(self) -> None:
        """Note what was left out since the last line that was kept."""
        self._note_dropped(self._rate.take_dropped())

    def _note_dropped(self, count: int) -> None:
        if count:
            reason = f"more than {LINES_PER_SECOND} lines a second"
            event = Dropped(ts=self._clock.wall(), what="log lines", count=count, reason=reason)
            self._journal.append(self._attempt_id, event)
