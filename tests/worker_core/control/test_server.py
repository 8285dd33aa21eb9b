"""The control channel against clients of every kind, most of them hostile."""

import asyncio
import json
import os
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker_core.control import server as module
from worker_core.control.endpoint import read_endpoint
from worker_core.control.messages import MAX_CLIENTS, MAX_LINE_BYTES, Hello, MetricEvent, Request, Subscribe
from worker_core.control.server import ControlServer
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.paths import Paths, find_paths
from worker_core.wire.codec import encode
from worker_core.wire.status import WorkerStatus

HOSTILE = {
    "an HTTP verb": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a cross-site POST": b"POST /unpair HTTP/1.1\r\nOrigin: http://evil.example\r\n\r\n{}\n",
    "a WebSocket": b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
    "a request before hello": b'{"type":"request","id":"1","op":"unpair"}\n',
    "no token": b'{"type":"hello","v":1,"client":"x"}\n',
    "a wrong token": b'{"type":"hello","v":1,"client":"x","token":"' + b"0" * 64 + b'"}\n',
    "a token of another alphabet": '{"type":"hello","v":1,"client":"x","token":"ключ"}\n'.encode(),
    "another version": b'{"type":"hello","v":99,"client":"x","token":"TOKEN"}\n',
    "not UTF-8": b'{"type":"hello","token":"\xff\xfe"}\n',
    "not JSON": b"\x00\x01\x02\x03\n",
    "deep JSON": b"[" * 100_000 + b"\n",
    "an endless line": b"a" * (MAX_LINE_BYTES + 10_000),
    "an empty line": b"\n",
    "a name that was bound again": b"GET /unpair HTTP/1.1\r\nHost: attacker.example\r\n\r\n",
    "JSON that is a script's": b'POST / HTTP/1.0\r\n\r\n{"type":"hello","v":1,"client":"x","token":"TOKEN"}\n',
}


async def greet(connect: Any, paths: Paths) -> Any:
    line = await connect()
    endpoint = read_endpoint(paths)
    assert endpoint is not None
    await line.say(Hello(v=1, token=endpoint.token, client="test"))
    welcome = json.loads(await line.hear())
    assert welcome["type"] == "welcome"
    assert welcome["pid"] == os.getpid()
    return line


@pytest.mark.parametrize("server", ["unix", "tcp"], indirect=True)
@pytest.mark.parametrize("kind", HOSTILE)
async def test_anything_but_a_proper_hello_is_closed_without_a_word(
    connect: Any, paths: Paths, answers: Any, kind: str
) -> None:
    line = await connect()
    endpoint = read_endpoint(paths)
    assert endpoint is not None
    await line.say(HOSTILE[kind].replace(b"TOKEN", endpoint.token.encode()))
    assert await line.closed()
    assert answers.asked == []


async def test_a_client_that_says_nothing_is_closed_in_time(connect: Any) -> None:
    line = await connect()
    assert await line.closed(timeout_s=4.0)


async def test_a_half_said_hello_is_closed_in_time(connect: Any) -> None:
    line = await connect()
    await line.say(b'{"type":"hello",')
    assert await line.closed(timeout_s=4.0)


async def test_the_socket_and_the_endpoint_are_for_their_owner_only(server: ControlServer, paths: Paths) -> None:
    assert stat.S_IMODE(paths.control_socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(paths.control_socket.stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE(paths.control_file.stat().st_mode) == 0o600


async def test_a_socket_folder_that_somebody_else_laid_out_is_refused_in_words(
    paths: Paths, answers: Any, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    paths.control_socket.parent.symlink_to(theirs)
    with pytest.raises(PermissionError, match="shorter STOKER_HOME"):
        await ControlServer(paths, answers, "1").start()
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o755
    assert list(theirs.iterdir()) == []


async def test_a_request_gets_its_reply_and_a_refusal_its_code(connect: Any, paths: Paths) -> None:
    line = await greet(connect, paths)
    await line.say(Request(id="a", op="status"))
    assert json.loads(await line.hear())["ok"]["state"] == "available"
    await line.say(Request(id="b", op="unpair"))
    assert json.loads(await line.hear())["error"] == {"code": "not-paired", "text": "this worker is not paired"}


async def test_a_fault_inside_becomes_a_sentence_and_the_line_lives_on(connect: Any, paths: Paths) -> None:
    line = await greet(connect, paths)
    await line.say(Request(id="a", op="quit"))
    error = json.loads(await line.hear())["error"]
    assert error["code"] == "failed"
    assert "a fault inside" not in error["text"]
    await line.say(Request(id="b", op="ping"))
    assert json.loads(await line.hear())["id"] == "b"


async def test_a_repeated_request_gets_the_first_answer_and_nothing_is_done_twice(
    connect: Any, paths: Paths, answers: Any
) -> None:
    first, second = await greet(connect, paths), await greet(connect, paths)
    answers.hold.clear()
    await first.say(Request(id="same", op="mode", args={"mode": "stop"}))
    await second.say(Request(id="same", op="mode", args={"mode": "stop"}))
    await asyncio.sleep(0.05)
    answers.hold.set()
    assert await first.hear() == await second.hear()
    assert len(answers.asked) == 1


async def test_an_answer_too_long_for_a_line_is_refused_in_words(connect: Any, paths: Paths) -> None:
    line = await greet(connect, paths)
    await line.say(Request(id="a", op="attempts"))
    assert "too long" in json.loads(await line.hear())["error"]["text"]


async def test_an_unknown_operation_closes_the_line(connect: Any, paths: Paths, answers: Any) -> None:
    line = await greet(connect, paths)
    await line.say(b'{"type":"request","id":"1","op":"format-disk"}\n')
    assert await line.closed()
    assert answers.asked == []


async def test_a_subscriber_sees_the_status_at_once_and_at_each_change(
    connect: Any, paths: Paths, server: ControlServer, answers: Any
) -> None:
    line = await greet(connect, paths)
    await line.say(Subscribe())
    first = json.loads(await line.hear())
    answers.state = "paused"
    server.publish()
    second = json.loads(await line.hear())
    assert (first["status"]["state"], second["status"]["state"]) == ("available", "paused")
    assert second["rev"] > first["rev"]


async def test_a_slow_client_gets_the_newest_status_and_a_count_of_lost_points(
    connect: Any, paths: Paths, server: ControlServer, answers: Any
) -> None:
    line = await greet(connect, paths)
    await line.say(Subscribe(metrics=True))
    await line.hear()
    for step in range(1000):
        answers.state = f"state-{step}"
        server.publish()
        server.publish_metric(MetricEvent(attempt_id="att", step=step, ts=0.0, values={"x": 1.0}))
    got = [json.loads(await line.hear()) for _ in range(257)]
    assert [item["status"]["state"] for item in got if item["type"] == "snapshot"] == ["state-999"]
    points = [item for item in got if item["type"] == "metric"]
    assert [point["step"] for point in points] == list(range(744, 1000))
    assert sum(point.get("lost", 0) for point in points) == 744


async def test_a_client_that_never_reads_disturbs_no_other(
    connect: Any, paths: Paths, server: ControlServer, answers: Any
) -> None:
    deaf, other = await greet(connect, paths), await greet(connect, paths)
    await deaf.say(Subscribe(metrics=True))
    for step in range(3000):
        server.publish_metric(MetricEvent(attempt_id="att", step=step, ts=0.0, values={"x" * 100: 1.0}))
        if step % 100 == 0:
            await asyncio.sleep(0)
    await other.say(Request(id="a", op="ping"))
    assert json.loads(await other.hear(1.0))["id"] == "a"


async def test_one_client_too_many_is_closed_and_those_before_stay(connect: Any, paths: Paths) -> None:
    lines = [await greet(connect, paths) for _ in range(MAX_CLIENTS)]
    endpoint = read_endpoint(paths)
    assert endpoint is not None
    extra = await connect()
    await extra.say(Hello(v=1, token=endpoint.token, client="test"))
    assert await extra.closed()
    lines[0].writer.close()
    await asyncio.sleep(0.05)
    await greet(connect, paths)
    await lines[1].say(Request(id="a", op="ping"))
    assert json.loads(await lines[1].hear())["id"] == "a"


async def test_a_stopped_server_leaves_neither_socket_nor_endpoint(
    server: ControlServer, paths: Paths, connect: Any
) -> None:
    line = await greet(connect, paths)
    await server.stop()
    assert await line.closed()
    assert read_endpoint(paths) is None
    assert not paths.control_socket.parent.exists()


async def test_those_who_never_say_hello_take_no_place_of_those_who_do(connect: Any, paths: Paths) -> None:
    for _ in range(100):
        await connect()
    line = await greet(connect, paths)
    await line.say(Request(id="a", op="ping"))
    assert json.loads(await line.hear())["id"] == "a"


async def test_a_client_that_asks_without_end_is_closed_and_nobody_else(
    connect: Any, paths: Paths, answers: Any
) -> None:
    greedy, other = await greet(connect, paths), await greet(connect, paths)
    answers.hold.clear()
    for number in range(200):
        await greedy.say(Request(id=f"r{number}", op="ping"))
    assert await greedy.closed()
    assert len(answers.asked) <= 16
    answers.hold.set()
    await other.say(Request(id="a", op="ping"))
    assert json.loads(await other.hear())["id"] == "a"


KNOCK = """
import json, os, socket, sys
address, token = sys.argv[1:]
os.setuid(65534)
line = socket.socket(socket.AF_UNIX)
line.connect(address)
hello = {"type": "hello", "v": 1, "client": "x", "token": token}
request = {"type": "request", "id": "1", "op": "unpair", "args": {}}
try:
    line.sendall(json.dumps(hello).encode() + b"\\n" + json.dumps(request).encode() + b"\\n")
    print(line.recv(4096))
except ConnectionError:
    print(b"")
"""


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="only root can become somebody else")
async def test_a_process_of_another_user_is_closed_even_with_the_token_and_the_folder_open(
    server: ControlServer, paths: Paths, answers: Any
) -> None:
    endpoint = read_endpoint(paths)
    assert endpoint is not None
    _open_to_all(Path(endpoint.address))
    knock = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KNOCK, endpoint.address, endpoint.token, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(knock.communicate(), 30)
    assert said.strip() == b"b''"
    assert answers.asked == []


def _open_to_all(address: Path) -> None:
    address.chmod(0o666)
    for folder in address.parents:
        if folder.stat().st_uid == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)


_LETTERS = st.text(max_size=20)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _LETTERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_LETTERS, inner, max_size=4),
    max_leaves=8,
)
_ALMOST = st.dictionaries(
    st.sampled_from(["type", "v", "token", "client", "id", "op", "args", "metrics"]),
    st.sampled_from(["hello", "request", "subscribe", "welcome", 1, None, "unpair", "mode"]) | _JSON,
)
_LINES = st.lists(
    (st.binary(max_size=300) | (_JSON | _ALMOST).map(lambda said: json.dumps(said).encode())), min_size=1, max_size=5
).map(b"\n".join)


class Answers:
    """Operations that count what they are asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def status(self) -> WorkerStatus:
        return WorkerStatus(state="available")

    async def perform(self, request: Request) -> object:
        self.asked.append(request)
        return {}


def test_no_bytes_whatsoever_open_the_channel_or_hurt_it(tmp_path: Path) -> None:
    """One loop and one server for all examples; each speaks on a line of its own."""
    paths = find_paths(str(tmp_path / "home"))
    private_folder(paths.data)
    answers = Answers()
    with asyncio.Runner() as runner:
        server = ControlServer(paths, answers, "1.2.3")
        runner.run(server.start())

        @settings(max_examples=80, deadline=None)
        @given(_LINES)
        def speak(said: bytes) -> None:
            assert runner.run(_speak(paths, said)) == b""

        speak()
        endpoint = read_endpoint(paths)
        assert endpoint is not None
        hello = encode(Hello(v=1, token=endpoint.token, client="test"))
        assert b'"type":"welcome"' in runner.run(_speak(paths, hello))
        runner.run(server.stop())
    assert answers.asked == []


async def _speak(paths: Paths, said: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(paths.control_socket))
    writer.write(said + b"\n")
    writer.write_eof()
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_full_disk_hides_a_worker_from_its_faces_only_until_there_is_room(
    tmp_path: Path, answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, full = module.write_endpoint, [OSError(28, "No space left on device")] * 2

    def write(paths: Paths, endpoint: Any) -> None:
        if full:
            raise full.pop()
        honest(paths, endpoint)

    monkeypatch.setattr(module, "write_endpoint", write)
    monkeypatch.setattr(module, "_PUBLISH_AGAIN_S", 0.01)
    paths = find_paths(str(tmp_path / "home"))
    private_folder(paths.data)
    started = ControlServer(paths, answers, "0.0.0")
    await started.start()
    try:
        assert read_endpoint(paths) is None
        async with asyncio.timeout(10):
            while read_endpoint(paths) is None:  # noqa: ASYNC110 - the file is all there is to see
                await asyncio.sleep(0.01)
    finally:
        await started.stop()
    assert read_endpoint(paths) is None


async def test_a_burst_of_silent_callers_holds_no_more_lines_than_one_after_the_other(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_STRANGERS", 4)
    ends = [socket.socketpair() for _ in range(20)]
    lines = [await asyncio.open_unix_connection(sock=ours) for ours, _theirs in ends]
    for reader, writer in lines:  # as a loop does that finds them all waiting at once
        server._receive(reader, writer)
    assert sum(not writer.is_closing() for _, writer in lines) == 4
    for _, theirs in ends:
        theirs.close()
