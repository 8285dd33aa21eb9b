"""A coordinator of a few hundred lines over real HTTP: it does the honest thing, or what a test scripts for a path.

It keeps no rules of its own beyond what a worker can see, and records every request, so that a test can say what
went over the wire.
"""

import asyncio
import hashlib
from collections import defaultdict, deque
from typing import Any

from joserfc import jws
from joserfc.jwk import OKPKey
from scripted_http import NONCE, Answer, ScriptedServer, Seen, html, message, refusal

from coordinator.queue.ingest import Batch, new_events
from worker_core.wire.codec import encode
from worker_core.wire.events import seqs_of
from worker_core.wire.ids import new_id
from worker_core.wire.pairing import PairingApproved, PairingStarted
from worker_core.wire.session import (
    Authorization,
    Control,
    ExtendAnswer,
    Meta,
    Parameters,
    SessionRequest,
    SessionStarted,
    TokenIssued,
)
from worker_core.wire.signed import Offer, Revocation
from worker_core.wire.vocabulary import Mode
from worker_core.wire.work import (
    Accepted,
    ArtifactAnswer,
    ArtifactRequest,
    Completion,
    EventBatch,
    EventsTaken,
    Heartbeat,
    HeartbeatAnswer,
    Lease,
    LeaseState,
    Limits,
    PollAnswer,
    PollRequest,
    Recorded,
    Release,
    UploadFinished,
    UploadTicket,
)


class ScriptedCoordinator(ScriptedServer):
    """Does what a coordinator does, as far as one worker can see it."""

    message = staticmethod(message)
    refusal = staticmethod(refusal)
    html = staticmethod(html)

    def __init__(self) -> None:
        super().__init__()
        self.key = OKPKey.generate_key("Ed25519")
        self.require_nonce = False
        self.worker_id = new_id("wrk")
        self.thumbprint = ""
        self.rev = 1
        self.console_mode: Mode = "run"
        self.remaining_s = 86400.0
        self.extend = False
        self.params = Parameters(
            poll_wait_s=0.5, heartbeat_s=0.2, events_flush_s=0.05, bulk_retry_cap_s=1.0, retry_cap_s=1.0
        )
        self.tokens = ["token-0"]
        self.pair_answer: Answer | None = None
        self.offers: deque[tuple[str, Accepted]] = deque()
        self.accepted: dict[str, Accepted] = {}
        self.events: dict[str, list[Any]] = defaultdict(list)
        self.uploads: dict[str, tuple[ArtifactRequest, bytearray]] = {}
        self.artifacts: dict[str, dict[str, bytes]] = defaultdict(dict)
        self.blobs: dict[str, bytes] = {}
        self.completions: dict[str, Completion] = {}
        self.releases: dict[str, Release] = {}
        self.declined: list[tuple[str, str]] = []
        self.verdicts: dict[str, str] = {}
        self.heartbeats: list[Heartbeat] = []
        self.polls: list[PollRequest] = []
        self.polls_answered = 0
        self.sessions: list[SessionRequest] = []
        self.revocation: str | None = None
        self.wake = asyncio.Event()

    # What a test orders

    def set_mode(self, mode: Mode) -> None:
        self.console_mode = mode
        self.rev += 1
        self.wake.set()

    def offer(self, spec: str, *, inputs: tuple[Any, ...] = (), limits: Limits | None = None, **members: Any) -> str:
        """Queue a job and return its attempt's id."""
        attempt_id = new_id("att")
        accepted = Accepted(
            lease=Lease(epoch=1, ttl=30.0),
            spec=spec,
            job_id=new_id("job"),
            job_name="a job",
            attempt=1,
            limits=limits or Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=5),
            inputs=inputs,
            **members,
        )
        self.offers.append((attempt_id, accepted))
        self.wake.set()
        return attempt_id

    def revoke(self, reason: str = "") -> None:
        self.revocation = self.sign(
            Revocation(
                worker_id=self.worker_id,
                thumbprint=self.thumbprint,
                gen=self.gen,
                revoked_at="2026-01-01T00:00:00Z",
                by="ada@example.org",
                reason=reason,
            )
        )
        self.wake.set()

    def sign(self, signed: Offer | Revocation, key: OKPKey | None = None) -> str:
        return jws.serialize_compact({"alg": "Ed25519"}, encode(signed), key or self.key, algorithms=["Ed25519"])

    def signed_offer(self, attempt_id: str, accepted: Accepted) -> str:
        return self.sign(
            Offer(
                worker_id=self.worker_id,
                thumbprint=self.thumbprint,
                gen=self.gen,
                attempt_id=attempt_id,
                job_id=accepted.job_id,
                epoch=accepted.lease.epoch,
                kind="rl-session",
                spec_sha256=hashlib.sha256(accepted.spec.encode()).hexdigest(),
                inputs=accepted.inputs,
            )
        )

    @property
    def jwks(self) -> dict[str, list[dict[str, str]]]:
        return {"keys": [{name: str(value) for name, value in self.key.as_dict(private=False).items()}]}

    @property
    def authorization(self) -> Authorization:
        return Authorization(
            expires_at=f"in {self.remaining_s:.0f} s",
            remaining_s=self.remaining_s,
            extend_while_healthy=self.extend,
        )

    @property
    def control(self) -> Control:
        return Control(
            gen=self.gen, rev=self.rev, console_mode=self.console_mode, authorization=self.authorization, by="ada"
        )

    async def honest(self, seen: Seen) -> Answer:
        if self.require_nonce and "dpop" in seen.headers and seen.proof()[1].get("nonce") != NONCE:
            return refusal("use-dpop-nonce")
        if self.revocation is not None and seen.path != "/v1/meta":
            return refusal("worker-revoked", signed=self.revocation)
        return await self._honest(seen)

    async def _honest(self, seen: Seen) -> Answer:
        path = seen.path
        match seen.method, path.strip("/").split("/")[1:]:
            case "GET", ["meta"]:
                return message(Meta(gen=self.gen, api=(1, 1), server_time="now", min_worker_version="0"))
            case "POST", ["pairings"]:
                self.thumbprint = OKPKey.import_key(seen.proof()[0]["jwk"]).thumbprint()
                return message(
                    PairingStarted(
                        pairing_id=new_id("prg"),
                        device_code="device-code-that-no-text-holds",
                        user_code="BCDF-GHJK",
                        verification_uri=f"{self.url}/pair",
                        fingerprint="four plain short words",
                        expires_in=60,
                        interval=0.02,
                    ),
                    201,
                )
            case "POST", ["pairings", "poll"]:
                return self.pair_answer or message(self.approval())
            case "DELETE", ["pairings", _]:
                return Answer(204)
            case "POST", ["sessions"]:
                self.sessions.append(seen.read(SessionRequest))
                return message(self._session(), 201)
            case "POST", ["sessions", _, "token"]:
                self.tokens.append(f"token-{len(self.tokens)}")
                return message(TokenIssued(token=self.tokens[-1], token_ttl=600))
            case "DELETE", ["sessions", _] | ["worker"]:
                return Answer(204)
            case "POST", ["authorization", "extend"]:
                self.remaining_s = 86400.0
                return message(ExtendAnswer(authorization=self.authorization, extended=True))
            case "POST", ["poll"]:
                answer = await self._poll(seen.read(PollRequest))
                self.polls_answered += 1
                return answer
            case "POST", ["heartbeat"]:
                return self._beat(seen.read(Heartbeat))
            case _:
                return self._work(seen)

    def approval(self) -> PairingApproved:
        return PairingApproved(
            worker_id=self.worker_id,
            worker_name="lathe",
            account="ada@example.org",
            approved_by="ada@example.org",
            authorization=self.authorization,
            coordinator_jwks=self.jwks,
            gen=self.gen,
        )

    def _session(self) -> SessionStarted:
        return SessionStarted(
            session_id=new_id("ses"),
            session_seq=len(self.sessions),
            token=self.tokens[-1],
            token_ttl=600,
            control=self.control,
            params=self.params,
        )

    async def _poll(self, poll: PollRequest) -> Answer:
        self.polls.append(poll)
        place = len(self.polls)
        self.wake.set()  # a newer poll answers the older one
        deadline = asyncio.get_running_loop().time() + poll.wait
        while asyncio.get_running_loop().time() < deadline:
            if self.revocation is not None:
                return refusal("worker-revoked", signed=self.revocation)
            control = self.control if (poll.observed.gen, poll.observed.rev) != (self.gen, self.rev) else None
            if poll.free_slots and self.offers:
                attempt_id, accepted = self.offers[0]
                return message(PollAnswer(offer=self.signed_offer(attempt_id, accepted), control=control))
            if control is not None:
                return message(PollAnswer(control=control))
            if place < len(self.polls):
                break
            self.wake.clear()
            try:
                async with asyncio.timeout(deadline - asyncio.get_running_loop().time()):
                    await self.wake.wait()
            except TimeoutError:
                break
        return Answer(204)

    def _beat(self, beat: Heartbeat) -> Answer:
        self.heartbeats.append(beat)
        differs = (beat.observed.gen, beat.observed.rev) != (self.gen, self.rev)
        leases = tuple(
            LeaseState(attempt_id=lease.attempt_id, verdict=self.verdicts.get(lease.attempt_id, "ok"), ttl=30.0)  # type: ignore[arg-type]
            for lease in beat.leases
        )
        return message(
            HeartbeatAnswer(
                n=beat.n, authorization=self.authorization, leases=leases, control=self.control if differs else None
            )
        )

    def _work(self, seen: Seen) -> Answer:
        match seen.method, seen.path.strip("/").split("/")[1:]:
            case "POST", ["attempts", attempt, "accept"]:
                for offered, accepted in tuple(self.offers):
                    if offered == attempt:
                        self.offers.remove((offered, accepted))
                        self.accepted[attempt] = accepted
                known = self.accepted.get(attempt)
                return message(known) if known else refusal("offer-expired")
            case "POST", ["attempts", attempt, "decline"]:
                self.offers = deque(pair for pair in self.offers if pair[0] != attempt)
                self.declined.append((attempt, seen.json()["reason"]))
                return Answer(204)
            case "POST", ["attempts", attempt, "events"]:
                return self._take_events(attempt, seen.read(EventBatch))
            case "POST", ["attempts", attempt, "artifacts"]:
                return self._take_artifact(attempt, seen.read(ArtifactRequest))
            case "GET", ["attempts", _, "inputs", sha256]:
                return Answer(200, self.blobs[sha256], "application/octet-stream")
            case "HEAD", ["uploads", upload]:
                return Answer(200, headers={"Upload-Offset": str(len(self.uploads[upload][1]))})
            case "PATCH", ["uploads", upload]:
                return self._take_chunk(upload, seen)
            case "POST", ["uploads", upload, "finish"]:
                return self._finish_upload(upload)
            case "POST", ["attempts", attempt, "complete"]:
                completion = seen.read(Completion)
                have = self._next_seq(attempt)
                if have < completion.final_seq:
                    return refusal("events-missing", next_seq=have)
                self.completions[attempt] = completion
                return message(Recorded(recorded=completion.outcome))
            case "POST", ["attempts", attempt, "release"]:
                self.releases[attempt] = seen.read(Release)
                return Answer(204)
            case _:
                return refusal("not-found")

    def _take_events(self, attempt: str, batch: EventBatch) -> Answer:
        next_seq = self._next_seq(attempt)
        if batch.first_seq > next_seq:
            return refusal("event-gap", next_seq=next_seq)
        new = new_events(Batch(batch.epoch, batch.first_seq, batch.events), next_seq)
        self.events[attempt] += [event for _, event in new]
        return message(EventsTaken(next_seq=self._next_seq(attempt)))

    def _next_seq(self, attempt: str) -> int:
        return sum(seqs_of(event) for event in self.events[attempt])

    def _take_artifact(self, attempt: str, request: ArtifactRequest) -> Answer:
        if request.sha256 in self.artifacts[attempt]:
            return message(ArtifactAnswer(exists=True, artifact_id=new_id("art")))
        upload = f"upl_{attempt[4:20]}{request.sha256[:16]}"
        _, content = self.uploads.setdefault(upload, (request, bytearray()))
        ticket = UploadTicket(id=upload, offset=len(content), chunk=64 * 1024)
        return message(ArtifactAnswer(artifact_id=new_id("art"), upload=ticket), 201)

    def _take_chunk(self, upload: str, seen: Seen) -> Answer:
        content = self.uploads[upload][1]
        if int(seen.headers["upload-offset"]) != len(content):
            return refusal("mismatching-offset")
        content += seen.body
        return Answer(204, headers={"Upload-Offset": str(len(content))})

    def _finish_upload(self, upload: str) -> Answer:
        request, content = self.uploads[upload]
        if hashlib.sha256(content).hexdigest() != request.sha256:
            content.clear()
            return refusal("digest-mismatch")
        for attempt in self.accepted:
            if upload.startswith(f"upl_{attempt[4:20]}"):
                self.artifacts[attempt][request.sha256] = bytes(content)
        return message(UploadFinished(sha256=request.sha256, size=request.size))
