"""Which process the coordinator on this computer is, on disk, so that the core after a killed one can end it."""

import asyncio
import logging
from pathlib import Path

import psutil

from worker_core.machine.atomic_files import write_file
from worker_core.wire.codec import BadMessage, Message, decode, encode

log = logging.getLogger(__name__)

FILE_NAME = "core-child.json"
_START_TOLERANCE_S = 1.0
_STOP_S = 8.0


class ChildRecord(Message):
    """Content of the file: pid and start time tell our child from a later process with the same number."""

    pid: int
    started: float


def record_child(data: Path, pid: int) -> None:
    """Note the child; one that is gone already leaves no note."""
    try:
        record = ChildRecord(pid=pid, started=psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return
    write_file(data / FILE_NAME, encode(record), private=True)


def forget_child(data: Path) -> None:
    """Take the note away: the child has ended."""
    (data / FILE_NAME).unlink(missing_ok=True)


async def end_left_child(data: Path) -> None:
    """End the child of an earlier core, if it still runs; one that nobody noted is not ours to end."""
    child = await asyncio.to_thread(_find, data)
    if child is not None:
        log.info("ending the coordinator that an earlier core left (process %d)", child.pid)
        await asyncio.to_thread(_end, child)
    forget_child(data)


def _find(data: Path) -> psutil.Process | None:
    try:
        record = decode((data / FILE_NAME).read_bytes(), ChildRecord)
        child = psutil.Process(record.pid)
        return child if abs(child.create_time() - record.started) <= _START_TOLERANCE_S else None
    except (OSError, BadMessage, psutil.Error):
        return None


def _end(child: psutil.Process) -> None:
    try:
        child.terminate()
        try:
            child.wait(_STOP_S)
        except psutil.TimeoutExpired:
            child.kill()
            child.wait(_STOP_S)
    except psutil.NoSuchProcess:
        return
    except (psutil.TimeoutExpired, psutil.AccessDenied) as error:
        log.warning("the coordinator that an earlier core left cannot be ended: %s", error)
