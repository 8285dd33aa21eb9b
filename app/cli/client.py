"""The people's API of a coordinator (protocol reference, "Console and API"), typed and synchronous."""

import hashlib
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar

import httpx

from app.cli.answers import Patience, body_of, exchange
from app.cli.credentials import Credentials
from app.cli.errors import CliError, WrongUsage
from worker_core.core.settings import BadSettings, read_settings
from worker_core.link.address import Address
from worker_core.link.faults import BadAddress
from worker_core.link.route import Route
from worker_core.machine.paths import find_paths
from worker_core.wire.client import (
    ArtifactView,
    BlobRequest,
    JobCreated,
    JobSubmit,
    JobView,
    LoginRequest,
    MetricPoint,
    ModeRequest,
    Page,
    RenewRequest,
    TokenView,
    WorkerView,
)
from worker_core.wire.codec import Count, Message, convert, encode
from worker_core.wire.pairing import PairingApproval, PairingFound, PairingLookup
from worker_core.wire.problems import ProblemError
from worker_core.wire.session import Meta
from worker_core.wire.signed import Input
from worker_core.wire.work import DIGEST_HEADER, OFFSET_HEADER, ArtifactAnswer, UploadFinish, UploadTicket

T = TypeVar("T")
ModeVerb = Literal["drain", "stop", "resume"]

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_PAGES_AT_MOST = 200
_UPLOAD_TRIES = 8


class LogLine(Message):
    """One line of a job's output."""

    attempt: Count
    seq: Count
    ts: float
    stream: str
    text: str
    cursor: str = ""


class Part(Message, Generic[T]):
    """A part of a job's points or lines; ``done`` when the job has ended and all were read."""

    items: list[T]
    next: str | None = None
    done: bool = False


def to_the_end(fetch: Callable[[str | None], Part[T]]) -> Iterator[T]:
    """Yield everything that is there now; ``fetch`` brings the part after a cursor, the first one for None."""
    cursor: str | None = None
    while True:
        part = fetch(cursor)
        yield from part.items
        if not part.items or part.next is None or part.next == cursor:
            return
        cursor = part.next


class CoordinatorClient:
    """One person's or script's view of a coordinator."""

    def __init__(self, url: str, token: str | None = None, *, patience: Patience | None = None) -> None:
        self.url = url
        self._patience = patience or Patience()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        address, route = _way_to(url)
        self._proxy = route.proxy_to(address)
        self._http = httpx.Client(
            base_url=url,
            headers=headers,
            timeout=_TIMEOUT,
            trust_env=False,
            proxy=self._proxy,
            verify=route.trust(address),
        )

    @classmethod
    def signed_in(cls, credentials: Credentials) -> Self:
        """Return a client with the credentials of a person."""
        return cls(credentials.coordinator, credentials.token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # What it is and who we are

    def meta(self) -> Meta:
        """Ask what the coordinator is; needs no credentials."""
        return self._get("/v1/meta", Meta)

    def login(self, email: str, password: str) -> TokenView:
        """Exchange e-mail and password for a token."""
        return self._post("/v1/console/login", TokenView, LoginRequest(email=email, password=password))

    # Workers

    def workers(self) -> list[WorkerView]:
        """Return all workers of the account."""
        return [convert(item, WorkerView) for item in self._pages("/v1/workers")]

    def worker(self, name: str) -> WorkerView:
        """Return the worker of this name or id, one that lives before a revoked one of the same name."""
        found = [worker for worker in self.workers() if name in (worker.name, worker.id)]
        found.sort(key=lambda worker: worker.state == "revoked")
        if not found:
            raise CliError(f"There is no worker {name!r}.", cure="See: stoker workers", code="not-found")
        return found[0]

    def set_mode(self, worker_id: str, verb: ModeVerb, reason: str = "") -> WorkerView:
        """Drain, stop or resume a worker from the console's side."""
        return self._post(f"/v1/workers/{worker_id}/{verb}", WorkerView, ModeRequest(reason=reason))

    def renew(self, worker_id: str, seconds: float | None = None) -> WorkerView:
        """Renew a worker's authorization, for its chosen length unless told otherwise."""
        return self._post(f"/v1/workers/{worker_id}/renew", WorkerView, RenewRequest(authorization_s=seconds))

    def revoke(self, worker_id: str) -> WorkerView:
        """Revoke a worker for good."""
        return self._post(f"/v1/workers/{worker_id}/revoke", WorkerView, ModeRequest())

    # Pairing

    def lookup(self, user_code: str) -> PairingFound:
        """Return what waits behind a pairing code."""
        return self._post("/v1/console/pairings/lookup", PairingFound, PairingLookup(user_code=user_code))

    def approve(self, pairing_id: str, approval: PairingApproval) -> WorkerView:
        """Approve a pairing."""
        return self._post(f"/v1/console/pairings/{pairing_id}/approve", WorkerView, approval, creates=True)

    # Jobs

    def submit(self, spec: str, inputs: tuple[Input, ...] = ()) -> str:
        """Queue a job and return its id."""
        return self._post("/v1/jobs", JobCreated, JobSubmit(spec=spec, inputs=inputs), creates=True).job_id

    def jobs(self, state: str | None = None) -> list[JobView]:
        """Return the jobs of the account, newest first."""
        return [convert(item, JobView) for item in self._pages("/v1/jobs", {"state": state} if state else {})]

    def job(self, job_id: str) -> JobView:
        """Return one job with its attempts and its spec."""
        return self._get(f"/v1/jobs/{job_id}", JobView)

    def cancel(self, job_id: str) -> JobView:
        """Cancel a job."""
        return self._post(f"/v1/jobs/{job_id}/cancel", JobView, None)

    def retry(self, job_id: str) -> JobView:
        """Queue an ended job again, from its last checkpoint."""
        return self._post(f"/v1/jobs/{job_id}/retry", JobView, None, creates=True)

    def metrics(self, job_id: str, after: str | None = None, limit: int = 1000) -> Part[MetricPoint]:
        """Return metric points after a cursor, in the order of their arrival."""
        return self._get(f"/v1/jobs/{job_id}/metrics", Part[MetricPoint], _after(after, limit))

    def logs(self, job_id: str, after: str | None = None, limit: int = 1000) -> Part[LogLine]:
        """Return log lines after a cursor."""
        return self._get(f"/v1/jobs/{job_id}/logs", Part[LogLine], _after(after, limit))

    # Files

    def artifacts(self, job_id: str) -> list[ArtifactView]:
        """Return the files of a job."""
        return [convert(item, ArtifactView) for item in self._pages(f"/v1/jobs/{job_id}/artifacts")]

    def download(self, artifact: ArtifactView, target: Path) -> None:
        """Write an artifact to ``target``, which appears only whole and with the right content."""
        partial = target.with_name(target.name + ".part")
        try:
            digest = exchange(lambda: self._receive(artifact, partial), self.url, self._patience, self._proxy)
            if digest.extensions["sha256"] != artifact.sha256:
                raise CliError(f"{artifact.name} arrived damaged.", cure="Try again.", code="digest-mismatch")
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    def upload(self, name: str, data: bytes) -> Input:
        """Send an input, continuing where an earlier try ended, and return what a job names it by."""
        sha256 = hashlib.sha256(data).hexdigest()
        request = BlobRequest(name=name, sha256=sha256, size=len(data))
        answer = self._post("/v1/blobs", ArtifactAnswer, request, creates=True)
        if answer.upload is not None:
            self._send_chunks(answer.upload, data)
            finish = UploadFinish(sha256=sha256, size=len(data))
            self._send_message(f"/v1/uploads/{answer.upload.id}/finish", finish)
        return Input(name=name, sha256=sha256, size=len(data))

    def _send_chunks(self, ticket: UploadTicket, data: bytes) -> None:
        offset, faults = ticket.offset, 0
        while offset < len(data):
            try:
                offset = self._send_chunk(ticket.id, offset, data[offset : offset + ticket.chunk])
            except ProblemError as error:
                faults += 1
                if error.code not in ("mismatching-offset", "upload-locked") or faults >= _UPLOAD_TRIES:
                    raise
                offset = self._upload_offset(ticket.id)

    def _send_chunk(self, upload_id: str, offset: int, chunk: bytes) -> int:
        headers = {
            OFFSET_HEADER: str(offset),
            DIGEST_HEADER: f"sha-256=:{b64encode(hashlib.sha256(chunk).digest()).decode()}:",
            "Content-Type": "application/offset+octet-stream",
        }
        answer = self._send("PATCH", f"/v1/uploads/{upload_id}", content=chunk, headers=headers)
        return int(answer.headers.get(OFFSET_HEADER, offset + len(chunk)))

    def _upload_offset(self, upload_id: str) -> int:
        return int(self._send("HEAD", f"/v1/uploads/{upload_id}").headers.get(OFFSET_HEADER, 0))

    def _receive(self, artifact: ArtifactView, partial: Path) -> httpx.Response:
        digest = hashlib.sha256()
        with self._http.stream("GET", f"/v1/artifacts/{artifact.id}") as response, partial.open("wb") as file:
            if not response.is_success:
                response.read()
                return response
            for chunk in response.iter_bytes():
                digest.update(chunk)
                file.write(chunk)
        response.extensions["sha256"] = digest.hexdigest()
        return response

    # The exchange itself

    def _get(self, path: str, kind: type[T], query: dict[str, str] | None = None) -> T:
        return body_of(self._send("GET", path, query=query), kind, self.url)

    def _post(self, path: str, kind: type[T], message: Message | None, *, creates: bool = False) -> T:
        return body_of(self._send_message(path, message, creates=creates), kind, self.url)

    def _send_message(self, path: str, message: Message | None, *, creates: bool = False) -> httpx.Response:
        headers = {"Idempotency-Key": uuid.uuid4().hex} if creates else {}
        if message is None:
            return self._send("POST", path, headers=headers)
        headers["Content-Type"] = "application/json"
        return self._send("POST", path, content=encode(message), headers=headers)

    def _send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        query: dict[str, str] | None = None,
    ) -> httpx.Response:
        def send() -> httpx.Response:
            return self._http.request(method, path, content=content, headers=headers, params=query)

        return exchange(send, self.url, self._patience, self._proxy)

    def _pages(self, path: str, query: dict[str, str] | None = None) -> Iterator[dict[str, object]]:
        after: str | None = None
        for _ in range(_PAGES_AT_MOST):
            page = self._get(path, Page, {**(query or {}), **({"after": after} if after else {})})
            yield from page.items
            after = page.next
            if after is None:
                return


def _way_to(url: str) -> tuple[Address, Route]:
    """Return how to reach a coordinator from here: as this worker's settings say, else as the system has it."""
    try:
        return Address.parse(url), read_settings(find_paths()).route()
    except (BadAddress, BadSettings) as error:
        raise WrongUsage(f"The coordinator cannot be reached: {error}.", code="bad-address") from error


def _after(after: str | None, limit: int) -> dict[str, str]:
    return {"limit": str(limit), **({"after": after} if after else {})}
