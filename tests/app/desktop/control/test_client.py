"""The control client against a core that misbehaves: it tells, it tries again, it never waits."""

import socket
from collections.abc import Callable

import pytest
from PySide6.QtCore import QObject

from app.desktop.control.client import LOST_LINK, NO_ANSWER, NOT_CONNECTED, ControlClient
from tests.desktop.scripted_core import TOKEN, ScriptedCore, paired
from worker_core.control.endpoint import read_endpoint
from worker_core.control.messages import MAX_LINE_BYTES, Endpoint, ErrorBody, ModeArgs

Wait = Callable[..., None]


class Heard:
    """What a client said."""

    def __init__(self, client: ControlClient) -> None:
        self.welcomes: list[object] = []
        self.snapshots: list[object] = []
        self.drops: list[str] = []
        client.welcomed.connect(self.welcomes.append)
        client.snapshot_arrived.connect(self.snapshots.append)
        client.dropped.connect(self.drops.append)


def connect(owner: QObject, core: ScriptedCore, **timing: float) -> tuple[ControlClient, Heard]:
    client = ControlClient(owner, **timing)
    heard = Heard(client)
    endpoint = read_endpoint(core.paths)
    assert endpoint is not None
    client.connect_to(endpoint)
    return client, heard


def test_a_welcome_is_followed_by_a_snapshot_and_by_each_change(core: ScriptedCore, owner: QObject, wait: Wait) -> None:
    client, heard = connect(owner, core)
    wait(lambda: heard.snapshots)
    core.set_status(paired())
    wait(lambda: len(heard.snapshots) == 2)
    client.close()


def test_a_request_gets_its_reply_or_its_error(core: ScriptedCore, owner: QObject, wait: Wait) -> None:
    client, heard = connect(owner, core)
    wait(lambda: heard.welcomes)
    answers: list[object] = []
    client.request("ping").succeeded.connect(answers.append)
    core.errors["mode"] = ErrorBody(code="not-paired", text="Pair first.")
    errors: list[ErrorBody] = []
    client.request("mode", ModeArgs(mode="drain")).failed.connect(errors.append)
    wait(lambda: answers and errors)
    assert errors[0].text == "Pair first."
    client.close()


def test_without_a_link_a_request_fails_at_once_and_in_words(owner: QObject, wait: Wait) -> None:
    errors: list[ErrorBody] = []
    ControlClient(owner).request("ping").failed.connect(errors.append)
    wait(lambda: errors)
    assert errors == [NOT_CONNECTED]


def test_a_request_that_is_not_answered_ends_by_its_time(core: ScriptedCore, owner: QObject, wait: Wait) -> None:
    client, heard = connect(owner, core)
    wait(lambda: heard.snapshots)
    core.behaviour = "slow"
    errors: list[ErrorBody] = []
    client.request("ping", timeout_s=0.2).failed.connect(errors.append)
    wait(lambda: errors)
    assert errors == [NO_ANSWER]
    client.close()


def test_a_core_that_leaves_fails_what_waits_for_it(core: ScriptedCore, owner: QObject, wait: Wait) -> None:
    client, heard = connect(owner, core)
    wait(lambda: heard.welcomes)
    errors: list[ErrorBody] = []
    client.request("pair-wait", timeout_s=None).failed.connect(errors.append)
    wait(lambda: core.asked("pair-wait"))
    for one in tuple(core._clients):
        one.shutdown(socket.SHUT_RDWR)
    wait(lambda: heard.drops == ["closed"])
    assert errors == [LOST_LINK]


@pytest.mark.parametrize(("behaviour", "reason"), [("silent", "silent"), ("garbage", "garbage"), ("newer", "version")])
def test_each_way_to_misbehave_has_its_name(
    core: ScriptedCore, owner: QObject, wait: Wait, behaviour: str, reason: str
) -> None:
    core.behaviour = behaviour  # type: ignore[assignment]
    _, heard = connect(owner, core, hello_s=0.5)
    wait(lambda: heard.drops == [reason])
    assert heard.welcomes == []


def test_a_core_that_stops_talking_is_dropped_and_one_that_pings_is_kept(
    core: ScriptedCore, owner: QObject, wait: Wait
) -> None:
    client, heard = connect(owner, core, silence_s=0.6)
    wait(lambda: heard.snapshots)
    core.ping()
    wait(lambda: heard.drops == ["silent"])
    assert not client.is_connected


def test_a_line_without_end_is_refused(owner: QObject, wait: Wait) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        client = ControlClient(owner)
        heard = Heard(client)
        client.connect_to(
            Endpoint(v=1, transport="tcp", address=f"127.0.0.1:{port}", token=TOKEN, pid=1, started=0.0, version="0")
        )
        wait(lambda: client._line is not None and client._line.is_open)
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"x" * (MAX_LINE_BYTES + 10))
            wait(lambda: heard.drops == ["garbage"])
