"""How a job's inputs come from its coordinator."""

import asyncio
from pathlib import Path

from worker_core.jobs.blobs import BlobCache
from worker_core.jobs.workspace import Fetch, FetchFailed
from worker_core.link.backoff import Backoff, until_answered
from worker_core.link.client import CoordinatorClient
from worker_core.link.faults import LinkFault
from worker_core.wire.problems import ProblemError

_FETCH_TRIES = 12
_FETCH_CAP_S = 30.0


def fetch_from(client: CoordinatorClient, attempt_id: str, cache: BlobCache) -> Fetch:
    """Return what fetches inputs of an attempt, patiently, going on where it stopped; others make room for them."""

    async def fetch(sha256: str, size: int, destination: Path) -> None:
        await cache.make_room(size)
        try:
            await until_answered(
                lambda: client.fetch_input(attempt_id, sha256, destination),
                Backoff(_FETCH_CAP_S),
                asyncio.sleep,
                _FETCH_TRIES,
            )
        except LinkFault as fault:
            # A long outage says nothing about the input: another attempt may have it.
            raise FetchFailed(str(fault), passing=True) from fault
        except OSError as error:
            # Nor does a disk that is full here: another worker may have the room.
            raise FetchFailed(f"it cannot be written here: {error}", passing=True) from error
        except ProblemError as fault:
            raise FetchFailed(str(fault), passing=fault.problem.retryable) from fault

    return fetch
