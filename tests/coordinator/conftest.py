"""A coordinator over real HTTP in a thread of the test process, and clients that act as workers and people."""

import asyncio
import functools
import json
import secrets
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import OKPKey
from msgspec import structs

from coordinator.accounts.people import SCOPES, hash_password, insert_account
from coordinator.accounts.proofs import token_hash
from coordinator.assembly import build_app, build_services, running, stop
from coordinator.serve import Server, bind, server_config
from coordinator.settings import Settings
from coordinator.storage.data_folder import DataFolder
from worker_core.wire.codec import decode, encode
from worker_core.wire.ids import new_id
from worker_core.wire.pairing import Host, PairingApproval, PairingApproved, PairingRequest, PairingStarted
from worker_core.wire.session import SessionRequest, SessionStarted

T = TypeVar("T")

PASSWORD = "correct horse battery"
GUARD_S = 30.0
NO_TLS = False
"""Plain HTTP on loopback; loading certificates for each client would take longer than most tests."""
HOST = Host(os="Linux", arch="x86_64", hostname="bench-1", ram_gb=32.0, cpus=8)

MANY = Settings(
    pairings_per_ip_hour=10_000,
    pairings_per_email_network_hour=10_000,
    pending_per_email_network=1_000,
    logins_per_ip=10_000,
)
"""Settings for tests that make many workers from one address; the limits have tests of their own."""


@functools.cache
def password_hash() -> str:
    """Return the hash of :data:`PASSWORD`, worked out once because that is slow on purpose."""
    return hash_password(PASSWORD)


class PersonClient:
    """A person's script: an API token of every scope."""

    def __init__(self, url: str, email: str, token: str) -> None:
        self.email = email
        headers = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=GUARD_S, trust_env=False, verify=NO_TLS)

    def send(self, method: str, path: str, message: object = None, **headers: str) -> httpx.Response:
        """Make one request with a JSON body; ``Idempotency_Key=…`` becomes a header."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content = None if message is None else encode(message)
        return self.http.request(method, path, content=content, headers=named)

    def approve(self, user_code: str, name: str, **choices: Any) -> httpx.Response:
        """Look a code up and approve it."""
        found = self.send("POST", "/v1/console/pairings/lookup", {"user_code": user_code})
        assert found.status_code == 200, found.text
        given: dict[str, Any] = {
            "job_scopes": ("any",),
            "authorization_s": 30 * 86400.0,
            "fingerprint_confirmed": True,
            **choices,
        }
        path = f"/v1/console/pairings/{found.json()['pairing_id']}/approve"
        return self.send("POST", path, PairingApproval(name=name, **given))

    def close(self) -> None:
        self.http.close()


class WorkerClient:
    """A workstation: a key, proofs of it, and a connection."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=GUARD_S, trust_env=False, verify=NO_TLS)
        self.key = OKPKey.generate_key("Ed25519")
        self.thumbprint = self.key.thumbprint()
        self.instance_id = new_id("ins")
        self.nonce: str | None = None
        self.token: str | None = None
        self.worker_id = ""
        self.session_id = ""
        self.approved: PairingApproved | None = None

    def proof(self, method: str, path: str, token: str | None = None, **changes: Any) -> str:
        """Return a proof; ``changes`` replace claims, None leaves one out."""
        claims: dict[str, Any] = {
            "jti": secrets.token_hex(8),
            "htm": method,
            "htu": self.url + path.split("?")[0],
            "iat": 1_000_000_000,
            "nonce": self.nonce,
            "ath": token_hash(token) if token else None,
            **changes,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        jwk = {
            name: str(value) for name, value in self.key.as_dict(private=False).items() if name in ("kty", "crv", "x")
        }
        header = {"typ": "dpop+jwt", "alg": "Ed25519", "jwk": jwk}
        return jws.serialize_compact(header, json.dumps(claims), self.key, algorithms=["Ed25519"])

    def send(
        self,
        method: str,
        path: str,
        message: object = None,
        *,
        token: str | None = None,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Make one signed request, repeated once when the server gives a new nonce."""
        body = content if content is not None or message is None else encode(message)
        response = self.send_once(method, path, body, token, headers or {})
        if response.status_code == 401 and "DPoP-Nonce" in response.headers:
            return self.send_once(method, path, body, token, headers or {})
        return response

    def send_once(
        self, method: str, path: str, body: bytes | None, token: str | None, headers: dict[str, str]
    ) -> httpx.Response:
        """Make one signed request and keep the nonce of its answer."""
        sent = {"DPoP": self.proof(method, path, token), **headers}
        if token:
            sent["Authorization"] = f"DPoP {token}"
        response = self.http.request(method, path, content=body, headers=sent)
        self.nonce = response.headers.get("DPoP-Nonce", self.nonce)
        return response

    def call(self, method: str, path: str, message: object = None, **more: Any) -> httpx.Response:
        """Make one request with the token of the connection."""
        return self.send(method, path, message, token=self.token or "none", **more)

    def start_pairing(self, email: str, **changes: Any) -> PairingStarted:
        """P1."""
        given: dict[str, Any] = {"email": email, "host": HOST, "worker_version": "0.1.0", **changes}
        response = self.send("POST", "/v1/pairings", PairingRequest(**given))
        assert response.status_code == 201, response.text
        return decode(response.content, PairingStarted)

    def poll_pairing(self, started: PairingStarted) -> httpx.Response:
        """P2."""
        return self.send("POST", "/v1/pairings/poll", {"device_code": started.device_code})

    def pair(self, person: PersonClient, name: str, **choices: Any) -> PairingApproved:
        """P1, approval, P2."""
        started = self.start_pairing(person.email)
        approved = person.approve(started.user_code, name, **choices)
        assert approved.status_code == 200, approved.text
        response = self.poll_pairing(started)
        assert response.status_code == 200, response.text
        self.approved = decode(response.content, PairingApproved)
        self.worker_id = self.approved.worker_id
        return self.approved

    def try_connect(self, **changes: Any) -> httpx.Response:
        """S1."""
        request: dict[str, Any] = {
            "worker_id": self.worker_id,
            "instance_id": self.instance_id,
            "session_seq": 1,
            "boot_id": "boot-1",
            "version": "0.1.0",
            "state": "available",
            "capabilities": {"host": HOST, "kinds": ("rl-session",), "credential_store": "file"},
            **changes,
        }
        return self.send("POST", "/v1/sessions", SessionRequest(**request))

    def connect(self, **changes: Any) -> SessionStarted:
        """S1, and keep its token."""
        response = self.try_connect(**changes)
        assert response.status_code == 201, response.text
        started = decode(response.content, SessionStarted)
        self.token, self.session_id = started.token, started.session_id
        return started

    def close(self) -> None:
        self.http.close()


class LiveCoordinator:
    """A coordinator that serves on a free port of this machine, in a thread with its own event loop."""

    def __init__(self, data: Path, settings: Settings = MANY) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self.data = data
        self._clock_file = data / "clock.json"
        self._offset_s = 0.0
        self._clients: list[PersonClient | WorkerClient] = []
        self.settings = structs.replace(settings, clock_file=str(self._clock_file))
        self._folder = DataFolder.hold(data)
        self._listener = bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.services = build_services(self._folder, self.settings, self.url)
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="coordinator")
        self._thread.start()
        assert self._up.wait(GUARD_S), "the coordinator did not start"

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = Server(server_config(build_app(self.services), self.services), self._up.set)
        async with running(self.services):
            await self._server.serve(sockets=[self._listener])

    def do(self, act: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the coordinator's event loop and return its result."""
        return asyncio.run_coroutine_threadsafe(act, self._loop).result(GUARD_S)

    def forward(self, seconds: float) -> None:
        """Move the coordinator's clock."""
        self._offset_s += seconds
        fresh = self._clock_file.with_suffix(".new")
        fresh.write_text(json.dumps({"offset_s": self._offset_s}))
        fresh.replace(self._clock_file)

    def account(self, email: str) -> None:
        """Make an account with :data:`PASSWORD`."""
        hashed, now = password_hash(), self.services.clock.now()
        self.do(self.services.db.write(lambda conn: insert_account(conn, email, hashed, now)))

    def person(self, email: str, scopes: tuple[str, ...] = SCOPES) -> PersonClient:
        """Return a client with an API token of an account."""
        token = self.do(self.services.people.add_token(email, "test", scopes))
        return self._kept(PersonClient(self.url, email, token))

    def workstation(self) -> WorkerClient:
        """Return a client with a new key."""
        return self._kept(WorkerClient(self.url))

    def worker(self, person: PersonClient, **choices: Any) -> WorkerClient:
        """Return a paired and connected worker with a name of its own."""
        client = self.workstation()
        client.pair(person, f"worker-{secrets.token_hex(4)}", **choices)
        client.connect()
        return client

    def close(self) -> None:
        """End the server as SIGTERM does and give the folder back."""
        if not self._thread.is_alive():
            return

        def end() -> None:
            stop(self.services)
            self._server.should_exit = True

        self._loop.call_soon_threadsafe(end)
        self._thread.join(GUARD_S)
        assert not self._thread.is_alive(), "the coordinator did not end"
        self._listener.close()
        self._folder.release()
        for client in self._clients:
            client.close()

    def _kept(self, client: Any) -> Any:
        self._clients.append(client)
        return client


StartCoordinator = Callable[..., LiveCoordinator]


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCoordinator]:
    """One coordinator for the tests of a module, with the account ada@example.org."""
    live = LiveCoordinator(tmp_path_factory.mktemp("coordinator"))
    live.account("ada@example.org")
    yield live
    live.close()


@pytest.fixture(scope="module")
def ada(coordinator: LiveCoordinator) -> PersonClient:
    """Ada's script, with every scope."""
    return coordinator.person("ada@example.org")


@pytest.fixture
def start_coordinator(tmp_path: Path) -> Iterator[StartCoordinator]:
    """Start coordinators of a test's own, by their settings; the same ``name`` again is a restart."""
    started: list[LiveCoordinator] = []

    def start(name: str = "coordinator", **settings: Any) -> LiveCoordinator:
        data = tmp_path / name
        is_new = not data.exists()
        live = LiveCoordinator(data, structs.replace(MANY, **settings))
        started.append(live)
        if is_new:
            live.account("ada@example.org")
        return live

    yield start
    for live in started:
        live.close()
