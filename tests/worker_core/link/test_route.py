"""The way to the coordinator: proxies with a login, networks that inspect, certificates that are not believed."""

import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from inspecting_proxy import LOGIN, Authority, InspectingProxy
from scripted_coordinator import ScriptedCoordinator

from worker_core.link.address import Address
from worker_core.link.client import CoordinatorClient
from worker_core.link.exchange import Exchanger
from worker_core.link.faults import BadAddress, TransportFault
from worker_core.link.identity import WorkerKey
from worker_core.link.route import Route
from worker_core.machine.clocks import SystemClock
from worker_core.wire.pairing import Host, PairingRequest
from worker_core.wire.work import ArtifactRequest, Heartbeat, PollRequest

HOST = "stoker.example.org"


class Network:
    """A company's network: the coordinator is reached through its proxy, or not at all."""

    def __init__(self, coordinator: ScriptedCoordinator, folder: Path) -> None:
        self.coordinator = coordinator
        self.authority = Authority(folder)
        self.proxy: InspectingProxy
        self._clients: list[CoordinatorClient] = []

    async def open(self, **certificate: Any) -> None:
        self.proxy = InspectingProxy(self.coordinator.port, self.authority.issue(HOST, **certificate))
        await self.proxy.start()

    def url(self, login: str = LOGIN) -> str:
        user, _, password = login.partition(":")
        return f"http://{quote(user)}:{quote(password)}@127.0.0.1:{self.proxy.port}"

    def client(self, route: Route, address: str = f"https://{HOST}") -> CoordinatorClient:
        made = CoordinatorClient(Exchanger(Address.parse(address), WorkerKey.generate(), SystemClock(), route))
        made.link.token = "token-0"
        self._clients.append(made)
        return made

    async def close(self) -> None:
        for client in self._clients:
            await client.link.close()
        await self.proxy.stop()


@pytest.fixture
async def network(coordinator: ScriptedCoordinator, tmp_path: Path) -> AsyncIterator[Network]:
    made = Network(coordinator, tmp_path)
    yield made
    await made.close()


async def test_pairing_polls_and_uploads_all_go_through_a_proxy_with_a_login_and_a_private_authority(
    network: Network,
) -> None:
    await network.open()
    client = network.client(Route.checked(network.url(), str(network.authority.file)))
    host = Host(os="Linux", arch="x86_64", hostname="lathe")
    await client.start_pairing(PairingRequest(email="ada@example.org", host=host, worker_version="1"))
    await client.poll(PollRequest(wait=0.1), 5.0)
    await client.heartbeat(Heartbeat(n=1))
    ticket = await client.announce_artifact(
        "att_1", ArtifactRequest(epoch=1, name="a", kind="result", sha256="0" * 64, size=3)
    )
    assert ticket.upload is not None
    assert await client.send_chunk(ticket.upload.id, 0, b"abc") == 3
    assert set(network.proxy.connected) == {f"{HOST}:443"}
    assert len(network.proxy.connected) == 3
    assert network.proxy.refused == 0


async def test_the_systems_own_proxy_counts_where_no_setting_says_otherwise(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    await network.open()
    monkeypatch.setenv("HTTPS_PROXY", network.url())
    monkeypatch.setenv("SSL_CERT_FILE", str(network.authority.file))
    await network.client(Route()).meta()
    assert network.proxy.connected
    monkeypatch.setenv("NO_PROXY", HOST)
    assert Route().proxy_to(Address.parse(f"https://{HOST}")) is None


async def test_this_computer_is_never_reached_through_a_proxy(network: Network) -> None:
    await network.open()
    client = network.client(Route.checked(network.url(), ""), network.coordinator.url)
    await client.meta()
    assert network.proxy.connected == []


async def test_an_authority_that_nobody_named_is_told_with_the_certificate_and_the_cure(network: Network) -> None:
    await network.open()
    with pytest.raises(TransportFault) as caught:
        await network.client(Route.checked(network.url(), "")).meta()
    assert caught.value.cause == "tls"
    for words in (HOST, "'Corp Inspection CA'", "ca_file", "valid 20"):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("begins", "ends", "cause", "words"),
    [(1, 30, "clock-wrong", "correct date and time"), (-30, -1, "tls", "has to renew it")],
)
async def test_a_certificate_out_of_its_days_is_told_with_this_computers_date(
    network: Network, begins: int, ends: int, cause: str, words: str
) -> None:
    await network.open(begins=timedelta(days=begins), ends=timedelta(days=ends))
    with pytest.raises(TransportFault, match="by this computer's clock it is 20") as caught:
        await network.client(Route.checked(network.url(), str(network.authority.file))).meta()
    assert caught.value.cause == cause
    assert words in str(caught.value)


async def test_a_certificate_for_another_name_is_told(network: Network) -> None:
    await network.open()
    client = network.client(Route.checked(network.url(), str(network.authority.file)), "https://other.example.org")
    with pytest.raises(TransportFault, match=f"it is for '{HOST}'") as caught:
        await client.meta()
    assert caught.value.cause == "tls"


async def test_a_proxy_that_asks_for_a_login_is_told_without_telling_the_password(network: Network) -> None:
    await network.open()
    with pytest.raises(TransportFault, match="asks for a login") as caught:
        await network.client(Route.checked(network.url("ada:wr0ng"), "")).meta()
    assert caught.value.cause == "proxy"
    assert "wr0ng" not in str(caught.value)
    assert f"127.0.0.1:{network.proxy.port}" in str(caught.value)


async def test_a_proxy_that_is_not_there_is_told_as_such(network: Network) -> None:
    await network.open()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(TransportFault, match=f"the proxy 127.0.0.1:{port} refuses") as caught:
        await network.client(Route.checked(f"http://127.0.0.1:{port}", "")).meta()
    assert caught.value.cause == "proxy"


@pytest.mark.parametrize("proxy", ["proxy.example.org:3128", "socks5://p:1", "http://", "http://p:99999", "http://a b"])
def test_what_is_no_proxy_is_refused_with_an_example(proxy: str) -> None:
    with pytest.raises(BadAddress, match=r"http://proxy\.example\.org:3128"):
        Route.checked(proxy, "")


@pytest.mark.parametrize("content", [None, "", "not a certificate"])
def test_a_file_without_certificates_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BadAddress, match=r"ca_file names .*ca\.pem"):
        Route.checked("", str(file))
