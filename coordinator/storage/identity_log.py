"""What must survive a restored database: who was revoked, and which keys were replaced, in a file that only grows.

Each line is on the disk before the database commits the same. Replayed over an older database it takes from revoked
workers what they would have got back, and keeps the dead keys dead.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from coordinator.storage.private_files import append_private
from worker_core.wire.codec import BadMessage, Message, decode, encode
from worker_core.wire.signed import Revocation

log = logging.getLogger(__name__)

LOG_NAME = "revocations.log"


class Replacement(Message, tag_field="typ", tag="key-change"):
    """A worker's key was replaced by a newer one."""

    worker_id: str
    old: str
    new: str
    at: float


Entry = Revocation | Replacement


def append_entry(data: Path, entry: Entry) -> None:
    """Put an entry on the disk; blocks until it is there."""
    append_private(data / LOG_NAME, encode(entry))


def read_entries(data: Path) -> Iterator[Entry]:
    """Yield all entries in order; a line that a power cut left half-written is told and left out."""
    try:
        with (data / LOG_NAME).open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield decode(line, Entry)  # pyright: ignore[reportArgumentType]
                except BadMessage as error:
                    log.warning("line %d of %s is not readable: %s", number, LOG_NAME, error)
    except FileNotFoundError:
        return
