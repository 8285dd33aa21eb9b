"""Polls that wait: one for each worker, woken in milliseconds by whatever concerns that worker."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Literal

from worker_core.wire.vocabulary import Mode

Ended = Literal["replaced", "gone", "stopping"]


class ParkedPoll:
    """The open poll of one worker. ``ended`` says why it must be answered without waiting on."""

    def __init__(
        self, worker_id: str, account_id: str, free_slots: int, local_mode: Mode, held_gpus: tuple[str, ...] = ()
    ) -> None:
        self.worker_id = worker_id
        self.account_id = account_id
        self.takes_work = free_slots > 0 and local_mode == "run"
        self.held_gpus = held_gpus
        self.offered: str | None = None
        """The attempt that was offered to this poll while it waited."""
        self.ended: Ended | None = None
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Let the poll look again."""
        self._wake.set()

    def end(self, why: Ended) -> None:
        """Let the poll answer now, with nothing."""
        self.ended = self.ended or why
        self._wake.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait until woken; False when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True


class ParkedPolls:
    """All open polls, the longest waiting first."""

    def __init__(self, on_queued: Callable[[str], None]) -> None:
        self._polls: dict[str, ParkedPoll] = {}
        self._on_queued = on_queued
        self.stopping = False

    def __len__(self) -> int:
        return len(self._polls)

    def park(self, poll: ParkedPoll) -> None:
        """Add a poll; an older one of the same worker is answered at once."""
        older = self._polls.pop(poll.worker_id, None)
        if older is not None:
            older.end("replaced")
        self._polls[poll.worker_id] = poll
        if self.stopping:
            poll.end("stopping")

    def leave(self, poll: ParkedPoll) -> None:
        """Remove a poll that was answered."""
        if self._polls.get(poll.worker_id) is poll:
            del self._polls[poll.worker_id]

    def ready(self, account_ids: Iterable[str]) -> list[ParkedPoll]:
        """Return the polls of these accounts that may be offered a job, the longest waiting first."""
        accounts = set(account_ids)
        return [
            poll
            for poll in self._polls.values()
            if poll.takes_work and poll.offered is None and poll.ended is None and poll.account_id in accounts
        ]

    def accounts_waiting(self) -> set[str]:
        """Return the accounts with a poll that may be offered a job."""
        return {poll.account_id for poll in self._polls.values() if poll.takes_work and poll.offered is None}

    def wake_worker(self, worker_id: str) -> None:
        """Let the worker's poll look again."""
        poll = self._polls.get(worker_id)
        if poll is not None:
            poll.wake()

    def job_queued(self, account_id: str) -> None:
        """A job of this account may be offered now."""
        self._on_queued(account_id)

    def stop(self) -> None:
        """Answer all polls with nothing, and every later one too."""
        self.stopping = True
        for poll in list(self._polls.values()):
            poll.end("stopping")
