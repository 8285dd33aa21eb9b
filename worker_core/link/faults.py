"""What can go wrong between a worker and its coordinator.

LinkFault
├── TransportFault     nothing that counts as an answer arrived; says nothing about the worker's standing
└── BadAddress         the coordinator's address cannot be used
(a coordinator's refusal is a :class:`worker_core.wire.problems.ProblemError`)
"""

import ssl
from collections.abc import Iterator
from typing import Literal

FaultCause = Literal["refused", "no-name", "tls", "clock-wrong", "timeout", "broken", "not-ours", "local"]


class LinkFault(Exception):
    """The link to the coordinator failed."""


class BadAddress(LinkFault):
    """The address of the coordinator cannot be used; the text says why and what to write."""


class TransportFault(LinkFault):
    """No answer that counts as the coordinator's: try again later, believe nothing."""

    def __init__(self, cause: FaultCause, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.cause: FaultCause = cause
        self.retry_after_s = retry_after_s


def explain_transport_error(error: BaseException, host: str) -> TransportFault:
    """Turn an error of the HTTP library into a fault with its cause in words."""
    chain = list(_causes(error))
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _explain_certificate(cause, host)
        if isinstance(cause, ssl.SSLError):
            return TransportFault("tls", f"no secure connection to {host}: {cause.reason or cause}")
    for cause in chain:
        if isinstance(cause, ConnectionRefusedError):
            return TransportFault("refused", f"{host} refuses connections; is the coordinator running?")
    text = " ".join(str(cause) for cause in chain)
    if "Name or service not known" in text or "getaddrinfo" in text or "name resolution" in text.lower():
        return TransportFault("no-name", f"the name {host} cannot be found; is the network up?")
    if "All connection attempts failed" in text:
        return TransportFault("refused", f"{host} refuses connections; is the coordinator running?")
    if any("Timeout" in type(cause).__name__ for cause in chain):
        return TransportFault("timeout", f"{host} did not answer in time")
    return TransportFault("broken", f"the connection to {host} broke: {str(error) or type(error).__name__}")


def _explain_certificate(error: ssl.SSLCertVerificationError, host: str) -> TransportFault:
    if "expired" in error.verify_message or "not yet valid" in error.verify_message:
        return TransportFault(
            "clock-wrong", f"the certificate of {host} is {error.verify_message}; check this computer's date and time"
        )
    return TransportFault("tls", f"the certificate of {host} is not trusted: {error.verify_message}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
