"""One file to the coordinator: announced by its hash, sent in chunks that go on where they stopped."""

import asyncio
import errno
from pathlib import Path

from worker_core.journal.journal import Journal
from worker_core.journal.records import UploadRow
from worker_core.link.backoff import spread
from worker_core.link.client import CoordinatorClient
from worker_core.link.faults import TransportFault
from worker_core.wire.problems import ProblemError
from worker_core.wire.work import ArtifactRequest, UploadFinish, UploadTicket

_GOES_ON = ("mismatching-offset", "upload-locked")
_MAX_STUMBLES = 20
_MAX_RESTARTS = 3


async def send_file(client: CoordinatorClient, journal: Journal, row: UploadRow, epoch: int, file: Path) -> None:
    """Bring one artifact to the coordinator and note so in the journal; faults and refusals are raised."""
    request = ArtifactRequest(
        epoch=epoch, name=row.name, kind=row.kind, sha256=row.sha256, size=row.size, step=row.step
    )
    for restart in range(_MAX_RESTARTS):
        answer = await client.announce_artifact(row.attempt_id, request)
        ticket = answer.upload
        if ticket is None and not answer.exists:
            raise TransportFault("not-ours", "an announced file was neither there already nor wanted")
        await journal.set_upload(
            row.attempt_id,
            row.sha256,
            only=(row.kind, row.name),
            state="sending" if ticket else "done",
            artifact_id=answer.artifact_id,
            upload_id=ticket.id if ticket else None,
        )
        if ticket is None:
            return
        try:
            await _send_chunks(client, ticket, row.size, file)
            await client.finish_upload(ticket.id, UploadFinish(sha256=row.sha256, size=row.size))
        except ProblemError as error:
            # The upload was lost or spoilt on the way: announce it again and send it from its start.
            if error.code not in ("digest-mismatch", "not-found") or restart == _MAX_RESTARTS - 1:
                raise
        else:
            await journal.set_upload(
                row.attempt_id,
                row.sha256,
                only=(row.kind, row.name),
                state="done",
                artifact_id=answer.artifact_id,
            )
            return


async def _send_chunks(client: CoordinatorClient, ticket: UploadTicket, size: int, file: Path) -> None:
    offset, stumbles = ticket.offset, 0
    while offset < size:
        chunk = await asyncio.to_thread(_read_chunk, file, offset, ticket.chunk)
        if not chunk:
            raise OSError(errno.EIO, f"only {offset} of its {size} bytes are left")
        try:
            before, offset = offset, await client.send_chunk(ticket.id, offset, chunk)
            if offset <= before:
                raise TransportFault("not-ours", f"an upload that took a chunk stands at {offset} still")
        except ProblemError as error:
            stumbles += 1
            if error.code not in _GOES_ON or stumbles > _MAX_STUMBLES:
                raise
            await asyncio.sleep(spread(error.problem.retry_after_s or 0.1))
            offset = await client.upload_offset(ticket.id)


def _read_chunk(file: Path, offset: int, length: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(offset)
        return opened.read(length)
