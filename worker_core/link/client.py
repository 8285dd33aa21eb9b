"""Every request a worker makes, typed: pairing (P), connection (S) and work (W) of docs/protocol.md."""

import base64
import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path

from worker_core.link.exchange import Exchanger, read_count, retry_after
from worker_core.link.faults import TransportFault
from worker_core.link.http import SinkFailed, Writer
from worker_core.link.identity import WorkerKey
from worker_core.wire.codec import encode
from worker_core.wire.pairing import PairingApproved, PairingPoll, PairingRequest, PairingStarted
from worker_core.wire.problems import ProblemError
from worker_core.wire.session import (
    ExtendAnswer,
    ExtendRequest,
    Goodbye,
    KeyChange,
    Meta,
    SessionRequest,
    SessionStarted,
    TokenIssued,
)
from worker_core.wire.work import (
    DIGEST_HEADER,
    OFFSET_HEADER,
    Accepted,
    AcceptRequest,
    ArtifactAnswer,
    ArtifactRequest,
    Completion,
    Decline,
    EventBatch,
    EventsTaken,
    Heartbeat,
    HeartbeatAnswer,
    PollAnswer,
    PollRequest,
    Recorded,
    Release,
    UploadFinish,
    UploadFinished,
)

_GZIP_FROM_BYTES = 1024


class CoordinatorClient:
    """The coordinator's endpoints for one worker. Each raises TransportFault, ProblemError or WorkerRevoked."""

    def __init__(self, exchanger: Exchanger) -> None:
        self.link = exchanger

    async def start_pairing(self, request: PairingRequest) -> PairingStarted:
        """P1: ask for a code."""
        return await self.link.ask("control", "POST", "/v1/pairings", PairingStarted, request, "proof")

    async def poll_pairing(self, device_code: str) -> PairingApproved:
        """P2: has a person decided? The problem's ``error`` says pending, slow_down, denied or expired."""
        poll = PairingPoll(device_code=device_code)
        return await self.link.ask("control", "POST", "/v1/pairings/poll", PairingApproved, poll, "proof")

    async def cancel_pairing(self, pairing_id: str) -> None:
        """P3: this pairing is not wanted any more."""
        await self.link.tell("control", "DELETE", f"/v1/pairings/{pairing_id}", standing="proof")

    async def meta(self) -> Meta:
        """S0: who is there?"""
        return await self.link.ask("control", "GET", "/v1/meta", Meta, standing="none")

    async def start_session(self, request: SessionRequest) -> SessionStarted:
        """S1: connect."""
        return await self.link.ask("control", "POST", "/v1/sessions", SessionStarted, request, "proof")

    async def issue_token(self, session_id: str) -> TokenIssued:
        """S2: a fresh token; the older one stays good for a minute."""
        path = f"/v1/sessions/{session_id}/token"
        return await self.link.ask("control", "POST", path, TokenIssued, standing="proof")

    async def end_session(self, session_id: str, reason: str) -> None:
        """S3: say goodbye."""
        await self.link.tell("control", "DELETE", f"/v1/sessions/{session_id}", Goodbye(reason=reason))

    async def extend(self, request: ExtendRequest) -> ExtendAnswer:
        """S4: ask for a longer authorization."""
        return await self.link.ask("control", "POST", "/v1/authorization/extend", ExtendAnswer, request)

    async def change_key(self, key: WorkerKey) -> None:
        """S6: be known by another key from now on. The body's proof holds the nonce, so a new one means a new body."""
        path = "/v1/worker/key"
        for last in (False, False, True):
            change = KeyChange(proof=self.link.proof_of(key, "POST", path))
            try:
                await self.link.tell("control", "POST", path, change)
            except ProblemError as error:
                if last or error.code not in ("use-dpop-nonce", "bad-proof"):
                    raise
            else:
                return

    async def unpair(self) -> None:
        """S7: revoke this worker itself."""
        await self.link.tell("control", "DELETE", "/v1/worker")

    async def poll(self, request: PollRequest, read_s: float) -> tuple[PollAnswer, float | None]:
        """W1: the long poll. Returns its answer (empty for 204) and the pause the coordinator asks for."""
        answer = await self.link.exchange("poll", "POST", "/v1/poll", request, read_s=read_s)
        pause_s = retry_after(answer)
        if answer.status == 204:
            return PollAnswer(), pause_s
        return self.link.read(answer, PollAnswer), pause_s

    async def accept(self, attempt_id: str, epoch: int) -> Accepted:
        """W2: take an offered job."""
        path = f"/v1/attempts/{attempt_id}/accept"
        return await self.link.ask("control", "POST", path, Accepted, AcceptRequest(epoch=epoch))

    async def decline(self, attempt_id: str, decline: Decline) -> None:
        """W3: leave an offered job to others."""
        await self.link.tell("control", "POST", f"/v1/attempts/{attempt_id}/decline", decline)

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """W4: keep the leases."""
        return await self.link.ask("control", "POST", "/v1/heartbeat", HeartbeatAnswer, heartbeat)

    async def send_events(self, attempt_id: str, batch: EventBatch) -> EventsTaken:
        """W5: hand over events, packed where it pays."""
        content = encode(batch)
        headers = {"Content-Type": "application/json"}
        if len(content) > _GZIP_FROM_BYTES:
            content = gzip.compress(content, compresslevel=3, mtime=0)
            headers["Content-Encoding"] = "gzip"
        path = f"/v1/attempts/{attempt_id}/events"
        answer = await self.link.exchange("bulk", "POST", path, headers=headers, content=content)
        return self.link.read(answer, EventsTaken)

    async def announce_artifact(self, attempt_id: str, request: ArtifactRequest) -> ArtifactAnswer:
        """W6: announce a file; the answer says whether and from where to send it."""
        path = f"/v1/attempts/{attempt_id}/artifacts"
        return await self.link.ask("bulk", "POST", path, ArtifactAnswer, request)

    async def upload_offset(self, upload_id: str) -> int:
        """W7: how much of an upload is there."""
        answer = await self.link.exchange("bulk", "HEAD", f"/v1/uploads/{upload_id}")
        return _offset(answer.headers)

    async def send_chunk(self, upload_id: str, offset: int, chunk: bytes) -> int:
        """W7: send the next bytes of an upload and return its new offset."""
        digest = base64.b64encode(hashlib.sha256(chunk).digest()).decode()
        headers = {
            OFFSET_HEADER: str(offset),
            DIGEST_HEADER: f"sha-256=:{digest}:",
            "Content-Type": "application/octet-stream",
        }
        path = f"/v1/uploads/{upload_id}"
        answer = await self.link.exchange("bulk", "PATCH", path, headers=headers, content=chunk)
        return _offset(answer.headers)

    async def finish_upload(self, upload_id: str, finish: UploadFinish) -> None:
        """W9: the upload is whole; the coordinator hashes it again and says what it hashed."""
        path = f"/v1/uploads/{upload_id}/finish"
        finished = await self.link.ask("bulk", "POST", path, UploadFinished, finish)
        if (finished.sha256, finished.size) != (finish.sha256, finish.size):
            raise TransportFault("not-ours", "confirmed another file than the one that was sent")

    async def fetch_input(self, attempt_id: str, sha256: str, destination: Path) -> None:
        """W10: fetch an input, going on from what ``destination`` holds already; OSError is of that file."""
        path = f"/v1/attempts/{attempt_id}/inputs/{sha256}"
        with destination.open("ab") as file:
            have = file.tell()
            headers = {"Range": f"bytes={have}-"} if have else {}

            def write_to(status: int, headers: Mapping[str, str]) -> Writer:
                if status == 200:  # the whole file comes, whatever was asked
                    file.truncate(0)
                return file.write

            try:
                answer = await self.link.exchange("bulk", "GET", path, headers=headers, sink=write_to)
            except SinkFailed as failed:
                raise failed.error from None
        if answer.body or answer.status not in (200, 206):
            raise TransportFault("not-ours", f"input {sha256[:12]} came with an unexpected answer {answer.status}")

    async def complete(self, attempt_id: str, completion: Completion) -> Recorded:
        """W11: the job ended."""
        return await self.link.ask("bulk", "POST", f"/v1/attempts/{attempt_id}/complete", Recorded, completion)

    async def release(self, attempt_id: str, release: Release) -> None:
        """W12: give the job back."""
        await self.link.tell("bulk", "POST", f"/v1/attempts/{attempt_id}/release", release)


def _offset(headers: Mapping[str, str]) -> int:
    offset = read_count(headers.get(OFFSET_HEADER))
    if offset is None:
        raise TransportFault("not-ours", f"an upload answer without {OFFSET_HEADER}")
    return offset
