"""One proven exchange with the coordinator: proof, nonce, token, and what counts as an answer of ours.

An answer counts only with the generation header and the expected content type. A captive portal's page, a proxy's
refusal or half an answer is a transport fault, whatever it says; above all it never means "revoked".
"""

import email.utils
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar

from worker_core.link.address import Address
from worker_core.link.faults import LinkFault, TransportFault
from worker_core.link.http import Limits, Plane, RawAnswer, Sink, Writer
from worker_core.link.identity import WorkerKey
from worker_core.link.proof import ProofMaker
from worker_core.link.route import BY_SYSTEM, Route
from worker_core.link.signatures import NotSignedForUs, PinnedCoordinator
from worker_core.machine.clocks import Clock
from worker_core.wire.codec import BadMessage, decode, encode
from worker_core.wire.problems import CONTENT_TYPE, Problem, ProblemError
from worker_core.wire.signed import GENERATION_HEADER, NONCE_HEADER, PROOF_HEADER, Revocation

T = TypeVar("T")
PlaneName = Literal["poll", "control", "bulk"]
Standing = Literal["none", "proof", "token"]
"""Kinds of authentication: N, P or K, and W of protocol.md."""

_NOT_THIS_KEY = ("key-replaced", "worker-unknown")
_COUNT = re.compile(r"[0-9]{1,18}")
_JSON = "application/json"
_DONE = (200, 201, 204, 206)
"""How a coordinator says yes; 202 is a promise and 203 a proxy's version of an answer."""
_BYTES = "application/octet-stream"
_PLANES: dict[PlaneName, Limits] = {
    "poll": Limits(read_s=35.0, connections=2),
    "control": Limits(read_s=15.0, connections=6),
    "bulk": Limits(read_s=60.0, connections=4),
}


class WorkerRevoked(LinkFault):
    """The coordinator revoked this worker, proven by the key pinned at pairing."""

    def __init__(self, revocation: Revocation) -> None:
        super().__init__(f"revoked by {revocation.by} at {revocation.revoked_at}")
        self.revocation = revocation


class Exchanger:
    """Speaks to one coordinator with one key."""

    def __init__(self, address: Address, key: WorkerKey, clock: Clock, route: Route = BY_SYSTEM) -> None:
        self.address = address
        self.pinned: PinnedCoordinator | None = None
        self.token: str | None = None
        self.refresh_token: Callable[[str], Awaitable[None]] | None = None
        self.gen = 0
        self.last_answer: float | None = None
        """When the newest answer that counts arrived, by the clock that runs through sleep."""
        self.clock_offset_s = 0.0
        """The coordinator's wall clock minus ours."""
        self._clock = clock
        self.spare: WorkerKey | None = None
        """The other key while the key is being changed: tried once where the first is not known (any more)."""
        self._proofs = ProofMaker(key, clock.wall)
        trust, proxy = route.trust(address), route.proxy_to(address)
        self._planes = {name: Plane(address, limits, trust, proxy) for name, limits in _PLANES.items()}

    async def ask(
        self, plane: PlaneName, method: str, path: str, kind: type[T], body: object = None, standing: Standing = "token"
    ) -> T:
        """Exchange JSON for a message of ``kind``; raises TransportFault, ProblemError or WorkerRevoked."""
        return self.read(await self.exchange(plane, method, path, body, standing), kind)

    def read(self, answer: RawAnswer, kind: type[T]) -> T:
        """Return the message of ``kind`` in an answer; raises TransportFault when it is none."""
        if _content_type(answer) != _JSON:
            raise self._not_ours(f"answered {answer.status} with {_content_type(answer) or 'no content'}")
        try:
            return decode(answer.body, kind)
        except BadMessage as error:
            raise self._not_ours(f"sent an answer that cannot be read: {error}") from error

    async def tell(
        self, plane: PlaneName, method: str, path: str, body: object = None, standing: Standing = "token"
    ) -> None:
        """Exchange JSON for nothing but success."""
        answer = await self.exchange(plane, method, path, body, standing)
        if answer.status == 200 and _content_type(answer) == _JSON:
            self.read(answer, dict[str, Any])
        elif answer.status != 204:
            raise self._not_ours(f"answered {answer.status} with {_content_type(answer) or 'no content'}")

    async def exchange(
        self,
        plane: PlaneName,
        method: str,
        path: str,
        body: object = None,
        standing: Standing = "token",
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        sink: Sink | None = None,
        read_s: float | None = None,
    ) -> RawAnswer:
        """Send a request, once more with a new nonce or token where the answer asks for it."""
        if body is not None:
            content = encode(body)
            headers = {"Content-Type": _JSON, **(headers or {})}
        tried: set[str] = set()
        while True:
            token, key = self.token, self._proofs.key
            try:
                return await self._once(plane, method, path, headers or {}, content, standing, sink, read_s)
            except ProblemError as error:
                if error.code in tried or not await self._cure(error.code, standing, token, key):
                    raise
                tried.add(error.code)

    def believe(self, answer: RawAnswer, method: str) -> RawAnswer:
        """Return an answer that is the coordinator's yes.

        Raises TransportFault for one that is not its own, ProblemError or WorkerRevoked for its no.
        """
        generation = self._check_ours(answer, method)
        refusal = None if answer.status < 300 else self._refusal(answer, method)
        if isinstance(refusal, TransportFault):
            raise refusal
        self._note(answer, generation)
        if refusal is not None:
            raise refusal
        return answer

    def drop_connections(self) -> None:
        """Close all sockets: they are dead after sleep."""
        for plane in self._planes.values():
            plane.drop_connections()

    async def close(self) -> None:
        """Close all sockets and wait for what that ends."""
        for plane in self._planes.values():
            await plane.close()

    @property
    def key(self) -> WorkerKey:
        """The key that proofs are made with."""
        return self._proofs.key

    def use_key(self, key: WorkerKey, spare: WorkerKey | None = None) -> None:
        """Make proofs with another key from now on."""
        self._proofs.key, self.spare = key, spare

    def proof_of(self, key: WorkerKey, method: str, path: str) -> str:
        """Return a proof for one request by a key that is not yet ours, bound to the token as ours are."""
        maker = ProofMaker(key, self._clock.wall)
        maker.nonce = self._proofs.nonce
        return maker.make(method, self.address.url + path, self.token)

    async def _cure(self, code: str, standing: Standing, used_token: str | None, used_key: WorkerKey) -> bool:
        if code in _NOT_THIS_KEY and standing != "none":
            if self._proofs.key is not used_key:
                return True  # the key was changed while this request was on its way
            if self.spare is not None:
                self.use_key(self.spare, used_key)
                return True
        if code == "use-dpop-nonce":
            return standing != "none" and self._proofs.nonce is not None
        if code == "token-expired" and standing == "token" and self.refresh_token is not None and used_token:
            if self.token == used_token:
                await self.refresh_token(used_token)
            return True
        return False

    async def _once(
        self,
        plane: PlaneName,
        method: str,
        path: str,
        headers: Mapping[str, str],
        content: bytes | None,
        standing: Standing,
        sink: Sink | None,
        read_s: float | None,
    ) -> RawAnswer:
        sent = {**headers, **self._credentials(method, path, standing)}
        guarded = _only_ours(sink) if sink is not None else None
        answer = await self._planes[plane].exchange(method, path, sent, content, guarded, read_s)
        return self.believe(answer, method)

    def _credentials(self, method: str, path: str, standing: Standing) -> dict[str, str]:
        if standing == "none":
            return {}
        url = self.address.url + path
        if standing == "proof":
            return {PROOF_HEADER: self._proofs.make(method, url)}
        token = self.token or ""
        return {"Authorization": f"DPoP {token}", PROOF_HEADER: self._proofs.make(method, url, token)}

    def _check_ours(self, answer: RawAnswer, method: str) -> int:
        generation = read_count(answer.headers.get(GENERATION_HEADER))
        if generation is None or (answer.status < 400 and answer.status not in _DONE):
            raise self._not_ours(f"answered {answer.status}, but not as a Stoker coordinator does")
        bare = method == "HEAD" or answer.status == 204 or answer.status >= 400
        if not bare and _content_type(answer) not in (_JSON, _BYTES):
            raise self._not_ours(f"answered {answer.status} with {_content_type(answer) or 'no content'}")
        return generation

    def _note(self, answer: RawAnswer, generation: int) -> None:
        self.gen = generation
        self.last_answer = self._clock.now()
        nonce = answer.headers.get(NONCE_HEADER)
        if nonce:
            self._proofs.nonce = nonce
        self._note_clock(answer.headers.get("Date"))

    def _note_clock(self, date: str | None) -> None:
        try:
            self.clock_offset_s = email.utils.parsedate_to_datetime(date or "").timestamp() - self._clock.wall()
        except ValueError:
            return  # no date, no statement about the clocks

    def _refusal(self, answer: RawAnswer, method: str) -> Exception:
        if method == "HEAD":
            return ProblemError(_problem_without_body(answer.status))
        if _content_type(answer) != CONTENT_TYPE:
            return self._not_ours(f"answered {answer.status} with {_content_type(answer) or 'no content'}")
        try:
            problem = decode(answer.body, Problem)
        except BadMessage as error:
            return self._not_ours(f"sent a refusal that cannot be read: {error}")
        if problem.code == "worker-revoked":
            return self._revoked(problem)
        return ProblemError(_with_retry_after(problem, answer.headers.get("Retry-After")))

    def _revoked(self, problem: Problem) -> Exception:
        try:
            if self.pinned is None:
                raise NotSignedForUs("no coordinator key is pinned")
            return WorkerRevoked(self.pinned.revocation(problem.signed or ""))
        except NotSignedForUs as error:
            return self._not_ours(f"says this worker is revoked, without proof ({error})")

    def _not_ours(self, what: str) -> TransportFault:
        return TransportFault("not-ours", f"{self.address.url} {what}")


def _content_type(answer: RawAnswer) -> str:
    return answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _problem_without_body(status: int) -> Problem:
    code = "not-found" if status in (404, 410) else "internal"
    return Problem(title="Refused", status=status, code=code, retryable=status >= 423)


def _with_retry_after(problem: Problem, header: str | None) -> Problem:
    asked_s = read_count(header)
    if problem.retry_after_s is not None or asked_s is None:
        return problem
    members: dict[str, Any] = {name: getattr(problem, name) for name in Problem.__struct_fields__}
    members["retry_after_s"] = float(asked_s)
    return Problem(**members)


def retry_after(answer: RawAnswer) -> float | None:
    """Return the seconds of ``Retry-After``, where an answer has one."""
    asked_s = read_count(answer.headers.get("Retry-After"))
    return None if asked_s is None else float(asked_s)


def read_count(header: str | None) -> int | None:
    """Return the whole number in a header; None where it is missing, or holds anything else."""
    return int(header) if header is not None and _COUNT.fullmatch(header) else None


def _only_ours(sink: Sink) -> Sink:
    """Keep a stranger's page out of the file that ``sink`` writes."""

    def choose(status: int, headers: Mapping[str, str]) -> Writer | None:
        kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if status not in (200, 206) or kind != _BYTES or GENERATION_HEADER not in headers:
            return None
        return sink(status, headers)

    return choose
