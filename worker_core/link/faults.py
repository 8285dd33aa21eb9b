"""What can go wrong between a worker and its coordinator.

LinkFault
├── TransportFault     nothing that counts as an answer arrived; says nothing about the worker's standing
└── BadAddress         the coordinator's address cannot be used
(a coordinator's refusal is a :class:`worker_core.wire.problems.ProblemError`)
"""

import ssl
from collections.abc import Iterator
from typing import Literal

FaultCause = Literal["refused", "no-name", "tls", "clock-wrong", "timeout", "broken", "not-ours", "proxy", "local"]


# OpenSSL's X509_V_ERR_… numbers, see X509_STORE_CTX_get_error(3).
_NOT_YET_VALID, _EXPIRED = 9, 10
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)


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


def certificate_fault(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return the error of the certificate behind an error of the HTTP library, where there is one."""
    return next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLCertVerificationError)), None)


def explain_certificate(error: ssl.SSLCertVerificationError, host: str, shown: str, today: str) -> TransportFault:
    """Turn a certificate that is not believed into a fault; ``shown`` describes it, ``today`` is this clock's date."""
    named = f"the certificate of {host} is not believed ({error.verify_message}{'; ' if shown else ''}{shown})"
    if error.verify_code == _NOT_YET_VALID:
        return TransportFault("clock-wrong", f"{named}; by this computer's clock it is {today}: correct date and time")
    if error.verify_code == _EXPIRED:
        cure = "if that is right, the coordinator's owner has to renew it; if not, correct date and time"
        return TransportFault("tls", f"{named}; by this computer's clock it is {today}: {cure}")
    if error.verify_code in _UNKNOWN_AUTHORITY:
        cure = "where a network inspects connections, name its authority's file in the setting ca_file"
        return TransportFault("tls", f"{named}; {cure}")
    return TransportFault("tls", named)


def explain_transport_error(error: BaseException, host: str) -> TransportFault:
    """Turn an error of the HTTP library into a fault with its cause in words."""
    chain = list(_causes(error))
    for cause in chain:
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
    return TransportFault("broken", f"the connection to {host} broke: {str(error).rstrip('.') or type(error).__name__}")


def explain_proxy_error(error: BaseException, host: str, proxy: str) -> TransportFault:
    """Turn an error on the way to, or of, a proxy into a fault that names the proxy."""
    text = str(error)
    if "407" in text:
        cure = "give user and password in the setting proxy, http://user:password@host:port"
        return TransportFault("proxy", f"the proxy {proxy} asks for a login; {cure}")
    if any(type(cause).__name__ == "ProxyError" for cause in _causes(error)):
        return TransportFault("proxy", f"the proxy {proxy} lets nothing through to {host}: {text}")
    fault = explain_transport_error(error, f"the proxy {proxy}")
    if fault.cause in ("refused", "no-name"):
        return TransportFault("proxy", str(fault).replace("; is the coordinator running?", "; is it running?"))
    return explain_transport_error(error, host)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
