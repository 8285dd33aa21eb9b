"""Only the coordinator's own answers count: every endpoint against every kind of answer that is none."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from scripted_coordinator import Answer, ScriptedCoordinator, html, refusal

from worker_core.link.client import CoordinatorClient
from worker_core.link.faults import TransportFault
from worker_core.wire.pairing import Host, PairingRequest
from worker_core.wire.session import ExtendRequest, Health, SessionRequest
from worker_core.wire.work import (
    ArtifactRequest,
    Completion,
    Decline,
    EventBatch,
    Heartbeat,
    PollRequest,
    Release,
    UploadFinish,
)

DIGEST = "0" * 64
HOST = Host(os="Linux", arch="x86_64", hostname="lathe")
PAIRING = PairingRequest(email="ada@example.org", host=HOST, worker_version="1")
SESSION = SessionRequest(worker_id="wrk_1", instance_id="ins_1", session_seq=1, boot_id="boot", version="1")
ARTIFACT = ArtifactRequest(epoch=1, name="a", kind="result", sha256=DIGEST, size=1)

Call = Callable[[CoordinatorClient, Path], Awaitable[object]]
TELLING: dict[str, Call] = {
    "P3 cancel pairing": lambda client, _: client.cancel_pairing("prg_1"),
    "S3 goodbye": lambda client, _: client.end_session("ses_1", "over"),
    "S7 unpair": lambda client, _: client.unpair(),
    "W3 decline": lambda client, _: client.decline("att_1", Decline(epoch=1, reason="busy")),
    "W9 finish": lambda client, _: client.finish_upload("upl_1", UploadFinish(sha256=DIGEST, size=1)),
    "W12 release": lambda client, _: client.release("att_1", Release(epoch=1, reason="stopped")),
}
BARE: dict[str, Call] = {
    "W7 offset": lambda client, _: client.upload_offset("upl_1"),
    "W7 chunk": lambda client, _: client.send_chunk("upl_1", 0, b"x"),
    "W10 input": lambda client, folder: client.fetch_input("att_1", DIGEST, folder / "input"),
}
ASKING: dict[str, Call] = {
    "P1 pair": lambda client, _: client.start_pairing(PAIRING),
    "P2 pairing poll": lambda client, _: client.poll_pairing("device"),
    "S0 meta": lambda client, _: client.meta(),
    "S1 session": lambda client, _: client.start_session(SESSION),
    "S2 token": lambda client, _: client.issue_token("ses_1"),
    "S4 extend": lambda client, _: client.extend(ExtendRequest(health=Health())),
    "W1 poll": lambda client, _: client.poll(PollRequest(), 35.0),
    "W2 accept": lambda client, _: client.accept("att_1", 1),
    "W4 heartbeat": lambda client, _: client.heartbeat(Heartbeat(n=1)),
    "W5 events": lambda client, _: client.send_events("att_1", EventBatch(epoch=1, first_seq=0, events=())),
    "W6 artifact": lambda client, _: client.announce_artifact("att_1", ARTIFACT),
    "W11 complete": lambda client, _: client.complete("att_1", Completion(epoch=1, outcome="failed", final_seq=0)),
}
NO_ANSWERS = {
    "a captive portal's page with 200": html(200),
    "a proxy's 403": html(403),
    "a proxy's 407": html(407),
    "a gateway's 502": html(502),
    "a gateway's 504": html(504),
    "a redirect": Answer(302, headers={"Location": "http://portal.example/"}, ours=False),
    "JSON of a stranger": Answer(200, b"{}", ours=False),
    "an unsigned 401 of a stranger": Answer(401, b'{"error":"revoked"}', ours=False),
    "a stranger's 404": Answer(404, b'{"code":"worker-unknown","action":"wipe"}', ours=False),
    "a stranger's 204": Answer(204, ours=False),
    "an empty answer": Answer(200, b"", ours=False),
    "a torn connection": Answer(raw=b""),
    "half a head": Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Le"),
    "not HTTP at all": Answer(raw=b"SSH-2.0-OpenSSH_9.2\r\n"),
    "revoked without a signature": refusal("worker-revoked"),
    "revoked with a forged signature": refusal("worker-revoked", signed="e30.e30.AAAA"),
}
SPOILT = {
    "our page of another type": Answer(200, b"<html>", "text/html"),
    "accepted, but not done": Answer(202, b"{}"),
    "JSON cut off": Answer(200, b'{"gen": 1, "api"'),
    "JSON of another shape": Answer(200, b"[1, 2, 3]"),
    "half the promised body": Answer(200, b"{" + b" " * 1000 + b"}", cut=200),
}
EMPTY = {"an empty 200": Answer(200, b""), "no body at all": Answer(204)}
METHODS = ("GET", "POST", "PATCH", "DELETE", "HEAD")


async def meet(
    coordinator: ScriptedCoordinator, client: CoordinatorClient, call: Call, folder: Path, kind: Answer
) -> None:
    for method in METHODS:
        coordinator.script(method, ".*", kind)
    with pytest.raises(TransportFault):
        await call(client, folder)
    assert not (folder / "input").exists() or (folder / "input").read_bytes() == b""


@pytest.mark.parametrize("endpoint", TELLING | BARE | ASKING)
async def test_what_is_not_a_coordinators_answer_is_a_transport_fault_at_every_endpoint(
    coordinator: ScriptedCoordinator, client: CoordinatorClient, tmp_path: Path, endpoint: str
) -> None:
    for name, answer in NO_ANSWERS.items():
        if endpoint == "W7 offset" and name.startswith("revoked"):
            continue  # an answer to HEAD has no body that could say so
        await meet(coordinator, client, (TELLING | BARE | ASKING)[endpoint], tmp_path, answer)


@pytest.mark.parametrize("endpoint", TELLING | ASKING)
async def test_half_an_answer_is_none(
    coordinator: ScriptedCoordinator, client: CoordinatorClient, tmp_path: Path, endpoint: str
) -> None:
    nothing = EMPTY if endpoint in ASKING and endpoint != "W1 poll" else {"an empty 200": EMPTY["an empty 200"]}
    for answer in (SPOILT | nothing).values():
        await meet(coordinator, client, (TELLING | ASKING)[endpoint], tmp_path, answer)


@pytest.mark.parametrize(
    "headers",
    [{}, {"Upload-Offset": "-1"}, {"Upload-Offset": "many"}, {"Upload-Offset": "1e3"}, {"Upload-Offset": "9" * 5000}],
)
@pytest.mark.parametrize("endpoint", ["W7 offset", "W7 chunk"])
async def test_an_upload_that_stands_nowhere_is_no_answer(
    coordinator: ScriptedCoordinator, client: CoordinatorClient, tmp_path: Path, endpoint: str, headers: dict[str, str]
) -> None:
    await meet(coordinator, client, BARE[endpoint], tmp_path, Answer(204, headers=headers))
