"""Problem documents (RFC 9457): the one form in which any part tells another that something failed."""

from typing import Literal

from worker_core.wire.codec import Message
from worker_core.wire.vocabulary import Word

CONTENT_TYPE = "application/problem+json"

Action = Literal["retry", "new_token", "new_session", "stop_attempt", "upgrade", "ask_person", "wipe"]


class FieldError(Message):
    """One field of a request that cannot be accepted: its path (``training.cycles``) and what is allowed."""

    field: str
    message: str


class Problem(Message, omit_defaults=True):
    """RFC 9457 members, then ours: a stable ``code``, whether trying again can help, and what to do."""

    title: str
    status: int
    code: str
    retryable: bool
    detail: str = ""
    type: str = "about:blank"
    instance: str | None = None
    retry_after_s: float | None = None
    action: Word | None = None
    """An :data:`Action`; one of a newer version is as none."""
    signed: str | None = None
    """JWS of a :class:`worker_core.wire.signed.Revocation`, with code ``worker-revoked``."""
    next_seq: int | None = None
    """First event sequence number the coordinator lacks (``event-gap``, ``events-missing``)."""
    index: int | None = None
    """Position of the event that was refused (``bad-event``)."""
    missing: tuple[str, ...] = ()
    """sha256 of artifacts not yet there (``artifacts-missing``)."""
    errors: tuple[FieldError, ...] = ()
    error: str | None = None
    """Pairing poll (RFC 8628 §3.5): authorization_pending, slow_down, access_denied or expired_token."""
    interval: float | None = None
    """New polling interval in seconds, with ``slow_down``."""


class ProblemError(Exception):
    """A problem document raised as an exception, on either side of the wire."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title)
        self.problem = problem

    @property
    def code(self) -> str:
        return self.problem.code


# status, title, action, retryable of every code a coordinator answers with
CODES: dict[str, tuple[int, str, Action | None, bool]] = {
    "invalid-request": (400, "The request is not valid", None, False),
    "pairing-pending": (400, "The pairing is not decided", "retry", True),
    "token-expired": (401, "The token has expired", "new_token", True),
    "use-dpop-nonce": (401, "The proof needs the server's nonce", "retry", True),
    "bad-proof": (401, "The proof of possession is not valid", None, False),
    "not-signed-in": (401, "Sign in first", "ask_person", False),
    "bad-credentials": (401, "E-mail or password is wrong", "ask_person", False),
    "worker-revoked": (401, "This worker was revoked", "wipe", False),
    "worker-unknown": (401, "This coordinator does not know the worker", "ask_person", False),
    "key-replaced": (401, "This key was replaced by a newer one", "ask_person", False),
    "authorization-expired": (403, "The authorization has expired", "ask_person", False),
    "hard-cap-reached": (403, "A person must renew this authorization", "ask_person", False),
    "step-up-required": (403, "Enter the password again", "ask_person", False),
    "forbidden": (403, "Not allowed", "ask_person", False),
    "no-lease": (403, "No live lease", "stop_attempt", False),
    "not-found": (404, "Not found", None, False),
    "code-not-found": (404, "No pairing waits for this code", "ask_person", False),
    "session-replaced": (409, "A newer connection of this worker exists", "new_session", True),
    "session-active": (409, "Another connection of this worker is alive", "retry", True),
    "credential-conflict": (409, "Two machines use one credential", "ask_person", False),
    "already-decided": (409, "The pairing is decided already", None, False),
    "pairing-expired": (409, "The pairing code has expired", None, False),
    "name-taken": (409, "A worker of this name exists", "ask_person", False),
    "offer-expired": (409, "The offer is no longer open", None, False),
    "lease-superseded": (409, "The attempt no longer holds the job", "stop_attempt", False),
    "event-gap": (409, "Events are missing before these", "retry", True),
    "events-missing": (409, "Events are missing before the completion", "retry", True),
    "artifacts-missing": (409, "Artifacts are missing before the completion", "retry", True),
    "already-completed": (409, "The attempt was completed differently", "stop_attempt", False),
    "mismatching-offset": (409, "The upload stands at another offset", "retry", True),
    "wrong-state": (409, "Not possible in the present state", None, False),
    "changed-meanwhile": (409, "The thing changed meanwhile", "retry", False),
    "in-progress": (409, "The same request is being worked on", "retry", True),
    "session-ended": (410, "The connection has ended", "new_session", True),
    "job-canceled": (410, "The job was cancelled", "stop_attempt", False),
    "too-large": (413, "Too large", None, False),
    "bad-event": (422, "An event is not valid", None, False),
    "bad-spec": (422, "The job spec is not valid", "ask_person", False),
    "digest-mismatch": (422, "The bytes do not have the digest announced", "retry", True),
    "idempotency-mismatch": (422, "The idempotency key was used for another request", None, False),
    "upload-locked": (423, "The upload is being written", "retry", True),
    "upgrade-required": (426, "This version is too old", "upgrade", False),
    "rate-limited": (429, "Too many requests", "retry", True),
    "internal": (500, "The coordinator failed", "retry", True),
    "draining": (503, "The coordinator is stopping", "retry", True),
    "disk-full": (507, "The coordinator's disk is full", "retry", True),
}


def problem(code: str, detail: str = "", **members: object) -> ProblemError:
    """Return the exception for ``code``; ``members`` are further fields of :class:`Problem`."""
    status, title, action, retryable = CODES[code]
    fields: dict[str, object] = {"action": action, "retryable": retryable, **members}
    return ProblemError(Problem(title=title, status=status, code=code, detail=detail, **fields))  # pyright: ignore[reportArgumentType]
