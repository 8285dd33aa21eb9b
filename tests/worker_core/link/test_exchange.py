"""What counts as an answer of the coordinator, and what a worker does about everything else."""

import asyncio
import json
import socket
from typing import Any

import pytest
from joserfc.jwk import OKPKey
from scripted_coordinator import Answer, ScriptedCoordinator, message, refusal

from worker_core.link.address import Address
from worker_core.link.client import CoordinatorClient
from worker_core.link.exchange import Exchanger, WorkerRevoked
from worker_core.link.faults import TransportFault
from worker_core.link.identity import WorkerKey
from worker_core.link.proof import access_token_hash
from worker_core.machine.clocks import SystemClock
from worker_core.wire.problems import ProblemError
from worker_core.wire.work import Heartbeat


async def test_a_signed_revocation_is_believed(coordinator: ScriptedCoordinator, client: CoordinatorClient) -> None:
    coordinator.revoke("sold")
    with pytest.raises(WorkerRevoked) as caught:
        await client.heartbeat(Heartbeat(n=1))
    assert caught.value.revocation.reason == "sold"


async def test_a_refusal_keeps_its_code_and_the_wait_it_asks_for(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    refused = refusal("rate-limited", "slow down")
    refused.headers["Retry-After"] = "7"
    coordinator.script("POST", "/v1/heartbeat", refused)
    with pytest.raises(ProblemError) as caught:
        await client.heartbeat(Heartbeat(n=1))
    assert (caught.value.code, caught.value.problem.retry_after_s) == ("rate-limited", 7.0)


async def test_a_nonce_that_is_asked_for_is_brought_once(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    coordinator.require_nonce = True
    assert (await client.heartbeat(Heartbeat(n=5))).n == 5
    assert coordinator.count("POST", "/v1/heartbeat") == 2


async def test_a_nonce_asked_for_again_and_again_ends_in_an_error(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    coordinator.script("POST", "/v1/heartbeat", *[refusal("use-dpop-nonce")] * 5)
    with pytest.raises(ProblemError):
        await client.heartbeat(Heartbeat(n=1))
    assert coordinator.count("POST", "/v1/heartbeat") == 2


async def test_every_proof_names_the_request_the_token_and_the_nonce(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    await client.meta()
    await client.heartbeat(Heartbeat(n=1))
    await client.heartbeat(Heartbeat(n=2))
    first, second = (seen.proof() for seen in coordinator.seen[1:])
    header, claims = second
    assert header["typ"] == "dpop+jwt"
    assert "d" not in header["jwk"]
    assert claims["htm"] == "POST"
    assert claims["htu"] == f"{coordinator.url}/v1/heartbeat"
    assert claims["ath"] == access_token_hash("token-0")
    assert claims["nonce"] == "nonce-1"
    assert first[1]["jti"] != claims["jti"]


@pytest.mark.parametrize("code", ["key-replaced", "worker-unknown"])
async def test_a_request_whose_key_was_changed_while_it_was_on_its_way_is_sent_again_with_the_new_one(
    coordinator: ScriptedCoordinator, client: CoordinatorClient, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    coordinator.script("POST", "/v1/heartbeat", refusal(code))
    new, send = WorkerKey.generate(), client.link._once

    async def change_meanwhile(*request: Any) -> Any:
        try:
            return await send(*request)
        finally:
            client.link.use_key(new)  # the change is over by now: there is no spare key left to try

    monkeypatch.setattr(client.link, "_once", change_meanwhile)
    assert (await client.heartbeat(Heartbeat(n=3))).n == 3
    keys = [OKPKey.import_key(seen.proof()[0]["jwk"]).thumbprint() for seen in coordinator.seen[-2:]]
    assert keys == [coordinator.thumbprint, new.thumbprint]


async def test_a_key_that_is_not_known_and_was_not_changed_is_not_tried_again(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    coordinator.script("POST", "/v1/heartbeat", *[refusal("key-replaced")] * 3)
    with pytest.raises(ProblemError):
        await client.heartbeat(Heartbeat(n=1))
    assert coordinator.count("POST", "/v1/heartbeat") == 1


async def test_an_expired_token_is_replaced_once_for_all_who_meet_it(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    refreshed: list[str] = []

    async def refresh(stale: str) -> None:
        if client.link.token == stale:
            refreshed.append(stale)
            client.link.token = "token-1"

    client.link.refresh_token = refresh
    coordinator.script("POST", "/v1/heartbeat", *[refusal("token-expired")] * 3)
    answers = await asyncio.gather(*(client.heartbeat(Heartbeat(n=n)) for n in range(3)))
    assert [answer.n for answer in answers] == [0, 1, 2]
    assert refreshed == ["token-0"]


async def test_an_answer_moves_the_generation_and_the_age_of_contact(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    coordinator.gen = 7
    assert client.link.last_answer is None
    await client.meta()
    assert client.link.gen == 7
    assert client.link.last_answer is not None


@pytest.mark.parametrize("status", [200, 201, 403, 503])
async def test_a_page_under_our_headers_is_no_contact(
    coordinator: ScriptedCoordinator, client: CoordinatorClient, status: int
) -> None:
    coordinator.gen = 7
    coordinator.script("GET", "/v1/meta", Answer(status, b"<html>Blocked</html>", "text/html"))
    with pytest.raises(TransportFault) as caught:
        await client.meta()
    assert caught.value.cause == "not-ours"
    assert (client.link.last_answer, client.link.gen) == (None, 0)


async def test_a_wrong_clock_here_is_seen_and_locks_nobody_out(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    coordinator.script(
        "GET",
        "/v1/meta",
        message(
            {"gen": 1, "api": [1, 1], "server_time": "", "min_worker_version": ""}, Date="Wed, 01 Jan 2070 00:00:00 GMT"
        ),
    )
    await client.meta()
    assert client.link.clock_offset_s > 86400


async def test_nobody_listening_is_told_as_refused(unused_port: int) -> None:
    exchanger = Exchanger(Address.parse(f"http://127.0.0.1:{unused_port}"), WorkerKey.generate(), SystemClock())
    with pytest.raises(TransportFault) as caught:
        await CoordinatorClient(exchanger).meta()
    assert caught.value.cause == "refused"
    assert "refuses connections" in str(caught.value)
    await exchanger.close()


async def test_an_unknown_name_is_told_as_such() -> None:
    exchanger = Exchanger(Address.parse("https://stoker.invalid"), WorkerKey.generate(), SystemClock())
    with pytest.raises(TransportFault) as caught:
        await CoordinatorClient(exchanger).meta()
    assert caught.value.cause == "no-name"
    await exchanger.close()


async def test_plain_http_behind_an_https_address_is_told_as_a_tls_fault() -> None:
    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = Address.parse(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    exchanger = Exchanger(address, WorkerKey.generate(), SystemClock())
    with pytest.raises(TransportFault) as caught:
        await CoordinatorClient(exchanger).meta()
    assert caught.value.cause == "tls"
    await exchanger.close()
    server.close()


async def test_no_secret_stands_in_an_address_or_a_log(
    coordinator: ScriptedCoordinator, client: CoordinatorClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        await client.heartbeat(Heartbeat(n=1))
    assert "token-0" not in caplog.text
    assert all("token-0" not in seen.path for seen in coordinator.seen)
    assert json.loads(coordinator.seen[0].body)["n"] == 1


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
