"""The coordinator's address as a person types it, made exact: HTTPS everywhere, plain HTTP on this computer only."""

import ipaddress
from dataclasses import dataclass
from typing import Self
from urllib.parse import SplitResult, urlsplit

from worker_core.link.faults import BadAddress

_EXAMPLE = "write for example https://stoker.example.org"


def is_loopback(host: str) -> bool:
    """Tell whether ``host`` is this computer."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Address:
    """A checked address: ``url`` has no slash at its end and is what proofs name."""

    url: str
    host: str
    secure: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address; raises :class:`BadAddress` that says what to write instead."""
        typed = text.strip()
        if "://" not in typed:
            typed = f"{'http' if is_loopback(_host(f'//{typed}', text)) else 'https'}://{typed}"
        parts, host = _split(typed, text)
        if parts.scheme == "http" and not is_loopback(host):
            raise BadAddress(f"{text!r} is not encrypted; use https:// (plain http is for this computer only)")
        shown = f"[{host}]" if ":" in host else host
        port = f":{parts.port}" if parts.port else ""
        return cls(f"{parts.scheme}://{shown}{port}{parts.path.rstrip('/')}", host, parts.scheme == "https")

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)


def _host(typed: str, text: str) -> str:
    try:
        return urlsplit(typed).hostname or ""
    except ValueError as error:
        raise BadAddress(f"{text!r} is not an address: {error}; {_EXAMPLE}") from error


def _split(typed: str, text: str) -> tuple[SplitResult, str]:
    host = _host(typed, text)
    parts = urlsplit(typed)
    try:
        _ = parts.port
    except ValueError as error:
        raise BadAddress(f"{text!r} is not an address: {error}; {_EXAMPLE}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise BadAddress(f"{text!r} is not the address of a coordinator; {_EXAMPLE}")
    if parts.username or parts.password:
        raise BadAddress(f"leave user name and password out of the address; {_EXAMPLE}")
    if parts.query or parts.fragment or any(letter.isspace() for letter in typed):
        raise BadAddress(f"{text!r} holds more than an address; {_EXAMPLE}")
    return parts, host
