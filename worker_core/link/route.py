"""How the coordinator is reached: straight, or through a proxy, and whose certificates are believed on the way.

Without settings the operating system's own count: ``HTTPS_PROXY`` and ``NO_PROXY``, the proxy of Windows and macOS, the
system's certificates, ``SSL_CERT_FILE``. This computer itself is never reached through a proxy.
"""

import ssl
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from worker_core.link.address import Address
from worker_core.link.faults import BadAddress


@dataclass(frozen=True)
class Route:
    """A checked way; ``proxy`` may hold a password and is never shown whole."""

    proxy: str = ""
    ca_file: str = ""

    @classmethod
    def checked(cls, proxy: str, ca_file: str) -> Self:
        """Read the settings of these names; raises :class:`BadAddress` that says what to write instead."""
        if proxy:
            _check_proxy(proxy)
        if ca_file:
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ca_file)
        return cls(proxy, ca_file)

    def proxy_to(self, address: Address) -> str | None:
        """Return the URL of the proxy to go through."""
        if address.loopback:
            return None
        if self.proxy:
            return self.proxy
        return None if proxy_bypass(address.host) else getproxies().get("https" if address.secure else "http")

    def trust(self, address: Address) -> ssl.SSLContext:
        """Return the certificates to believe: the system's, or the bundled where it has none, and those of a setting.

        Raises :class:`BadAddress` when the file of the setting cannot be read any more.
        """
        if not address.secure:
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust = ssl.create_default_context()
        if not trust.cert_store_stats()["x509_ca"]:
            import certifi

            trust.load_verify_locations(certifi.where())
        if self.ca_file:
            _load(trust, self.ca_file)
        return trust


BY_SYSTEM = Route()
"""As the operating system has it."""


def shown_proxy(proxy: str) -> str:
    """Return a proxy's host and port, without user and password."""
    parts = urlsplit(proxy)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def _check_proxy(proxy: str) -> None:
    wanted = "write for example http://proxy.example.org:3128, with user:password@ before the host if it asks for them"
    try:
        parts = urlsplit(proxy)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or any(letter.isspace() for letter in proxy):
        raise BadAddress(f"the setting proxy is not the address of a proxy; {wanted}")


def _load(trust: ssl.SSLContext, ca_file: str) -> None:
    try:
        trust.load_verify_locations(ca_file)
    except OSError as error:  # ssl.SSLError is one
        why = "it holds no certificates in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
        raise BadAddress(f"the setting ca_file names {ca_file}, which cannot be used: {why}") from error
