"""A proxy that asks for a login and inspects what goes through with an authority of its own, as companies have."""

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOGIN = "ada:s3cret p@ss"


class Authority:
    """A private authority and the certificates it issues."""

    def __init__(self, folder: Path, name: str = "Corp Inspection CA") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        root = self._builder(self._name, self._key.public_key(), timedelta(days=-1), timedelta(days=365))
        root = root.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file = folder / "authority.pem"
        self.file.write_bytes(root.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(
        self, host: str, begins: timedelta = timedelta(days=-1), ends: timedelta = timedelta(days=30)
    ) -> ssl.SSLContext:
        """Return what a server needs to show a certificate for ``host``."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        made = self._builder(name, key.public_key(), begins, ends)
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        file = self._folder / f"{host}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, begins: timedelta, ends: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
        )


class InspectingProxy:
    """Takes CONNECT, shows its own certificate, and passes everything on to ``upstream`` in the clear."""

    def __init__(self, upstream: int, shown: ssl.SSLContext, login: str | None = LOGIN) -> None:
        self.connected: list[str] = []
        self.refused = 0
        self.port = 0
        self._upstream = upstream
        self._shown = shown
        self._wanted = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._receive, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for line in self._lines:
            line.transport.abort()
        await asyncio.sleep(0.02)  # a turn of the loop or two closes them

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.split(": ", 1) for line in head.strip().split("\r\n")[1:])
            given = {name.lower(): value for name, value in headers.items()}.get("proxy-authorization")
            if self._wanted not in (None, given):
                self.refused += 1
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            self.connected.append(head.split(" ")[1])
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await writer.start_tls(self._shown)
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            self._lines |= {writer, far_writer}
            try:
                await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
            finally:
                far_writer.close()
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while received := await reader.read(65536):
        writer.write(received)
        await writer.drain()
    writer.close()
