"""Parked polls end when they must: at a stop of the coordinator, at a revocation, when the wanted mode changes."""

import asyncio
import threading
import time
from typing import Any

import httpx
import pytest
from sqlalchemy import insert, select

from coordinator.accounts.proofs import token_hash
from coordinator.storage.schema import account, worker
from worker_core.wire.codec import decode, encode
from worker_core.wire.ids import new_id
from worker_core.wire.pairing import Host
from worker_core.wire.problems import Problem
from worker_core.wire.session import SessionRequest
from worker_core.wire.work import PollAnswer, PollRequest

COUNT = 200


class Parked:
    """The open poll of one worker, in a thread."""

    def __init__(self, client, **request) -> None:
        self.answered_at = 0.0
        self.response: Any = None

        def poll() -> None:
            self.response = client.call("POST", "/v1/poll", PollRequest(**request))
            self.answered_at = time.monotonic()

        self._thread = threading.Thread(target=poll)
        self._thread.start()
        time.sleep(0.3)

    def answer(self):
        self._thread.join(20)
        assert not self._thread.is_alive(), "the poll was not answered"
        return self.response


def test_a_revocation_answers_the_parked_poll_with_the_signed_word(coordinator, ada):
    client = coordinator.worker(ada)
    observed = client.connect().control
    parked = Parked(client, observed={"gen": observed.gen, "rev": observed.rev})
    begun = time.monotonic()
    ada.send("POST", f"/v1/workers/{client.worker_id}/revoke")
    response = parked.answer()
    assert parked.answered_at - begun < 2
    assert response.status_code == 401
    assert decode(response.content, Problem).signed


@pytest.mark.parametrize("word", ["drain", "stop"])
def test_a_wanted_mode_reaches_the_parked_poll_at_once(coordinator, ada, word):
    client = coordinator.worker(ada)
    observed = client.connect().control
    parked = Parked(client, observed={"gen": observed.gen, "rev": observed.rev})
    begun = time.monotonic()
    ada.send("POST", f"/v1/workers/{client.worker_id}/{word}")
    control = decode(parked.answer().content, PollAnswer).control
    assert parked.answered_at - begun < 2
    assert control is not None
    assert (control.console_mode, control.by) == (word, "ada@example.org")


def test_a_newer_connection_ends_the_poll_of_the_older(coordinator, ada):
    client = coordinator.worker(ada)
    observed = client.connect().control
    parked = Parked(client, observed={"gen": observed.gen, "rev": observed.rev})
    newer = client.try_connect(instance_id=new_id("ins"), prev_instance_ids=(client.instance_id,))
    assert newer.status_code == 201
    assert decode(parked.answer().content, Problem).code == "session-replaced"


async def _tokens(services, clients) -> list[tuple[str, int, int]]:
    """Make a connected worker of each client, without the ceremony of pairing."""

    def write(conn) -> None:
        owner = conn.execute(select(account.c.id)).scalar_one()
        rows = [
            {
                "id": new_id("wrk"),
                "account_id": owner,
                "name": f"worker-{number}",
                "thumbprint": client.thumbprint,
                "created_at": 0.0,
                "approved_by": "ada",
                "host": encode(Host(os="L", arch="x", hostname="h")).decode(),
                "version": "0.1.0",
                "job_scopes": '["any"]',
                "auth_length_s": 1e6,
                "auth_expires_at": services.clock.now() + 1e6,
                "extend_while_healthy": False,
                "person_acted_at": services.clock.now(),
            }
            for number, client in enumerate(clients)
        ]
        conn.execute(insert(worker), rows)

    await services.db.write(write)

    async def connect(client) -> tuple[str, int, int]:
        row = await services.sessions.worker_of_key(client.thumbprint)
        request = SessionRequest(
            worker_id=row.id, instance_id=new_id("ins"), session_seq=1, boot_id="b", version="0.1.0"
        )
        started = await services.sessions.connect(row, request)
        return started.token, started.control.gen, started.control.rev

    return list(await asyncio.gather(*map(connect, clients)))


def _until_parked(services) -> None:
    guard = time.monotonic() + 60
    while len(services.queue.parked) < COUNT:
        assert time.monotonic() < guard, "not all polls were parked"
        time.sleep(0.02)


async def test_a_stop_answers_200_parked_polls_within_5_seconds(start_coordinator):
    live = start_coordinator()
    clients = [live.workstation() for _ in range(COUNT)]
    tokens = await asyncio.to_thread(live.do, _tokens(live.services, clients))
    nonce = live.services.proofs.nonces.current()

    async def poll(http: httpx.AsyncClient, client, held: tuple[str, int, int]) -> httpx.Response:
        token, gen, rev = held
        proof = client.proof("POST", "/v1/poll", token, nonce=nonce, ath=token_hash(token))
        headers = {"Authorization": f"DPoP {token}", "DPoP": proof}
        body = encode(PollRequest(observed={"gen": gen, "rev": rev}))  # pyright: ignore[reportArgumentType]
        return await http.post("/v1/poll", content=body, headers=headers)

    limits = httpx.Limits(max_connections=COUNT, max_keepalive_connections=COUNT)
    async with httpx.AsyncClient(base_url=live.url, limits=limits, timeout=60, trust_env=False, verify=False) as http:
        polls = [asyncio.ensure_future(poll(http, *pair)) for pair in zip(clients, tokens, strict=True)]
        await asyncio.to_thread(_until_parked, live.services)
        begun = time.monotonic()
        await asyncio.to_thread(live.close)
        took_s = time.monotonic() - begun
        responses = await asyncio.gather(*polls)
    assert took_s < 5
    assert {response.status_code for response in responses} == {204}
    assert all(float(response.headers["retry-after"]) >= 0 for response in responses)
