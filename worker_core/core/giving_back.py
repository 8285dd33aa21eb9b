"""The machine in its owner's hands: from when, until when, and how fast it was free.

It is a source of mode of its own beside console and workstation, so that it ends by itself without lifting what a
person asked for elsewhere. It stands in the journal, so a restart of the core does not take the machine back.
"""

import logging

from worker_core.journal.journal import Journal
from worker_core.machine.clocks import Clock
from worker_core.wire.codec import BadMessage, Message, decode, encode
from worker_core.wire.status import GivenBackShown
from worker_core.wire.vocabulary import Mode, Reason

log = logging.getLogger(__name__)

REASON: Reason = "owner:given-back"
_FACT = "given-back"


class _Kept(Message):
    since: float
    until: float | None = None


class GivingBack:
    """Holds what the owner asked for. Moments are wall time: 08:00 means what the owner's clock shows then."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._kept = _read(journal)
        self._asked_at: float | None = None
        self._freed_s: float | None = None
        self._free = True

    @property
    def mode(self) -> Mode:
        """What the owner's hold asks of the worker."""
        return "stop" if self._kept is not None else "run"

    @property
    def is_over(self) -> bool:
        """Whether its time has come."""
        kept = self._kept
        return kept is not None and kept.until is not None and self._clock.wall() >= kept.until

    async def begin(self, until: float | None) -> None:
        """Hold from now on; raises JournalError when a restart would forget it."""
        self._kept = _Kept(since=self._clock.wall(), until=until)
        self._asked_at, self._freed_s, self._free = self._clock.now(), None, False
        await self._journal.set_fact(_FACT, encode(self._kept).decode())

    async def end(self) -> None:
        """Hold no longer; raises JournalError."""
        if self._kept is not None:
            self._kept = None
            await self._journal.set_fact(_FACT, None)

    def note_slot(self, *, free: bool) -> None:
        """Take down when the slot, and with it the GPU, became free."""
        if free and not self._free and self._asked_at is not None:
            self._freed_s = self._clock.now() - self._asked_at
        self._free = free

    def shown(self) -> GivenBackShown | None:
        """Return what a face shows."""
        kept = self._kept
        if kept is None:
            return None
        return GivenBackShown(since=kept.since, until=kept.until, freed=self._free, freed_s=self._freed_s)


def _read(journal: Journal) -> _Kept | None:
    text = journal.fact(_FACT)
    if text is None:
        return None
    try:
        return decode(text.encode(), _Kept)
    except BadMessage as error:
        log.warning("what was kept about giving the GPU back cannot be read, so it is over: %s", error)
        return None
