"""One HTTP exchange with a coordinator: what counts as its answer, and when to ask again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx
import tenacity

from app.cli.errors import NotACoordinator, Unreachable
from worker_core.link.explanations import explain
from worker_core.wire.codec import BadMessage, decode
from worker_core.wire.problems import CONTENT_TYPE, Problem, ProblemError
from worker_core.wire.signed import GENERATION_HEADER

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """How long a command goes on asking before it gives up."""

    attempts: int = 5
    longest_wait_s: float = 5.0


class TryLater(Exception):
    """The coordinator is busy or stopping; carries how long it asks us to wait."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title)
        self.problem = problem


def exchange(
    send: Callable[[], httpx.Response], url: str, patience: Patience, proxy: str | None = None
) -> httpx.Response:
    """Send until an answer of the coordinator is there; raises its problem, or :class:`Unreachable`."""

    def once() -> httpx.Response:
        try:
            return checked(send(), url)
        except httpx.TransportError as error:
            fault = explain(error, url, httpx.URL(url).netloc.decode(), proxy)
            raise Unreachable(
                f"Cannot reach the coordinator at {url}.",
                why=_sentence(str(fault)),
                cure="Check the address and the network, and that the coordinator runs.",
                code="unreachable",
            ) from error

    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(patience.attempts),
        wait=lambda state: _wait(state, patience),
        retry=tenacity.retry_if_exception(lambda error: _is_passing(error, patience)),
        reraise=True,
    )
    try:
        return retrying(once)
    except TryLater as later:
        raise ProblemError(later.problem) from later


def _is_passing(error: BaseException, patience: Patience) -> bool:
    if isinstance(error, TryLater) and (error.problem.retry_after_s or 0) > 4 * patience.longest_wait_s:
        return False  # asking again before that is in vain, and a person waits here
    return isinstance(error, TryLater | Unreachable) and not isinstance(error, NotACoordinator)


def _wait(state: tenacity.RetryCallState, patience: Patience) -> float:
    error = state.outcome.exception() if state.outcome else None
    spread = tenacity.wait_random_exponential(multiplier=0.2, max=patience.longest_wait_s)(state)
    asked = error.problem.retry_after_s if isinstance(error, TryLater) else None
    return spread if asked is None else min(asked + spread, 4 * patience.longest_wait_s)


def checked(response: httpx.Response, url: str) -> httpx.Response:
    """Return the response when it is a coordinator's success; raises otherwise."""
    if GENERATION_HEADER not in response.headers:
        raise NotACoordinator(
            f"What answers at {url} is not a Stoker coordinator.",
            why=_what_came(response),
            cure="Check the address; a log-in page of the network or a proxy may stand in between.",
            code="not-a-coordinator",
        )
    if response.is_success:
        return response
    problem = _problem_of(response, url)
    if problem.code in ("draining", "rate-limited", "in-progress", "upload-locked", "internal") and problem.retryable:
        raise TryLater(problem)
    raise ProblemError(problem)


def body_of(response: httpx.Response, kind: type[T], url: str) -> T:
    """Read the JSON of an answer; raises :class:`NotACoordinator` when it is something else."""
    try:
        return decode(response.content, kind)
    except BadMessage as error:
        raise NotACoordinator(
            f"The answer of {url} cannot be read.",
            why=_sentence(str(error)),
            cure="Its version may not fit this one.",
            code="not-a-coordinator",
        ) from error


def _problem_of(response: httpx.Response, url: str) -> Problem:
    if response.headers.get("content-type", "").partition(";")[0].strip() != CONTENT_TYPE:
        raise NotACoordinator(
            f"The answer of {url} cannot be read.", why=_what_came(response), code="not-a-coordinator"
        )
    return body_of(response, Problem, url)


def _what_came(response: httpx.Response) -> str:
    content = response.headers.get("content-type", "no content type").partition(";")[0]
    target = response.headers.get("location")
    return f"It answered {response.status_code} with {content}" + (f", pointing to {target}." if target else ".")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")
