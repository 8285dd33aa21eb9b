"""What certificate the other end shows, for a person who has to find out why it is not believed."""

import base64
import http.client
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

from cryptography import x509
from cryptography.x509.oid import NameOID

_LOOK_S = 5.0


@dataclass(frozen=True)
class Presented:
    """A certificate that was shown and not believed."""

    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime

    def __str__(self) -> str:
        days = f"{self.not_before:%Y-%m-%d} to {self.not_after:%Y-%m-%d}"
        return f"it is for {self.subject!r}, issued by {self.issuer!r}, valid {days}"


def read_certificate(der: bytes) -> Presented:
    """Read a certificate in DER form; raises ValueError."""
    found = x509.load_der_x509_certificate(der)
    return Presented(_name(found.subject), _name(found.issuer), found.not_valid_before_utc, found.not_valid_after_utc)


def look(url: str, proxy: str | None) -> Presented | None:
    """Fetch the certificate that is shown at ``url``, believing nothing and saying nothing; blocks for some seconds."""
    unbelieving = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unbelieving.check_hostname, unbelieving.verify_mode = False, ssl.CERT_NONE
    parts = urlsplit(url)
    assert parts.hostname is not None
    host, port = parts.hostname, parts.port or 443
    line = _connection(host, port, proxy, unbelieving)
    try:
        line.connect()
        der: bytes | None = line.sock.getpeercert(binary_form=True)
        return read_certificate(der) if der else None
    except (OSError, http.client.HTTPException, ValueError):
        return None  # it was there a moment ago; the fault is told without it
    finally:
        line.close()


def today() -> str:
    """Return this computer's date, as its clock has it."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def _connection(host: str, port: int, proxy: str | None, trust: ssl.SSLContext) -> http.client.HTTPSConnection:
    if proxy is None:
        return http.client.HTTPSConnection(host, port, context=trust, timeout=_LOOK_S)
    through = urlsplit(proxy)
    assert through.hostname is not None
    line = http.client.HTTPSConnection(through.hostname, through.port or 3128, context=trust, timeout=_LOOK_S)
    headers: dict[str, str] = {}
    if through.username is not None:
        login = f"{unquote(through.username)}:{unquote(through.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    line.set_tunnel(host, port, headers)
    return line


def _name(name: x509.Name) -> str:
    for kind in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME):
        for attribute in name.get_attributes_for_oid(kind):
            return str(attribute.value)[:100]
    return name.rfc4514_string()[:100] or "nobody"
