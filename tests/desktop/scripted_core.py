"""A core that follows a script: it speaks the control channel and records what the desktop asks for.

Ways to behave: ``normal``; ``silent`` takes connections and never answers; ``slow`` answers requests after two
seconds; ``garbage`` answers with bytes that are no messages; ``newer`` welcomes with a later protocol version.
"""

import json
import math
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any, Literal

import psutil

from worker_core.control.messages import (
    PROTOCOL_VERSION,
    AttemptShown,
    Endpoint,
    ErrorBody,
    History,
    MetricEvent,
    PairOutcome,
    Ping,
    Reply,
    Series,
    Snapshot,
    Welcome,
)
from worker_core.machine.paths import find_paths
from worker_core.wire.codec import Message, convert, encode
from worker_core.wire.owner_rules import OwnerRules
from worker_core.wire.status import (
    AuthorizationShown,
    DeviceLoad,
    GivenBackShown,
    JobShown,
    ModesShown,
    PairingShown,
    WorkerShown,
    WorkerStatus,
)

Behaviour = Literal["normal", "silent", "slow", "garbage", "newer"]
TOKEN = "scripted" * 8
ATTEMPT = "att_running"
OLDER = "att_older"


def unpaired() -> WorkerStatus:
    return WorkerStatus(state="unpaired", pid=os.getpid(), started_by="desktop", version="0.1.0")


def paired(state: str = "available", **facts: Any) -> WorkerStatus:
    shown: dict[str, Any] = {
        "worker": WorkerShown(id="wrk_1", name="den-workstation", account="ada@example.org"),
        "coordinator": "https://train.example.org",
        "contact_age_s": 3.0,
        "authorization": AuthorizationShown(
            expires_at="2030-01-01T00:00:00Z", remaining_s=29 * 86400.0 + 4 * 3600, extend_while_healthy=True
        ),
        "load": DeviceLoad(device="cpu", cpu_pct=42.0, ram_used_bytes=6 << 30, ram_total_bytes=16 << 30),
        "pid": os.getpid(),
        "started_by": "desktop",
        "version": "0.1.0",
    }
    return WorkerStatus(state=state, **(shown | facts))


def training(progress: float = 0.45, state: str = "training", **facts: Any) -> WorkerStatus:
    job = JobShown(
        id="job_1",
        attempt=2,
        epoch=2,
        kind="rl-session",
        name="lunar lander",
        step=round(progress * 1_000_000),
        progress=progress,
        eta_s=(1 - progress) * 260,
        checkpoint_age_s=12.0,
        attempt_id=ATTEMPT,
        phase="training",
    )
    return paired(state, **({"job": job} | facts))


def waiting(code: str = "BCDF-GHJK", expires_in_s: float = 900.0) -> WorkerStatus:
    return WorkerStatus(state="pairing", pairing=pairing(code, expires_in_s), pid=os.getpid(), started_by="desktop")


def pairing(code: str = "BCDF-GHJK", expires_in_s: float = 900.0) -> PairingShown:
    return PairingShown(
        user_code=code,
        verification_uri="https://train.example.org/pair?code=BCDFGHJK",
        fingerprint="amber canyon violet harbor",
        expires_in_s=expires_in_s,
        coordinator="https://train.example.org",
        email="ada@example.org",
    )


def history(attempt_id: str, buckets: int = 400, with_nan: bool = False) -> History:
    """A believable session: the return climbs, the loss falls, the speed stays."""
    steps = tuple(round(450_000 * (at + 1) / buckets) for at in range(buckets))
    wave = [math.sin(at / 9.0) + 0.6 * math.sin(at / 2.3) for at in range(buckets)]
    rise = [-210 + 450 / (1 + math.exp(-(at / buckets - 0.45) * 9)) + 12 * wave[at] for at in range(buckets)]
    fall = [0.9 * math.exp(-2.2 * at / buckets) + 0.05 + 0.03 * abs(wave[at]) for at in range(buckets)]
    speed = [9200 + 260 * wave[at] for at in range(buckets)]
    made = {
        "rollout/ep_rew_mean": _series(steps, rise, 18),
        "train/loss": _series(steps, fall, 0.04),
        "time/fps": _series(steps, speed, 180),
    }
    if with_nan:
        loss = made["train/loss"]
        broken = (*loss.last[:-1], "NaN")
        made["train/loss"] = Series(steps=loss.steps, lows=loss.lows, highs=loss.highs, last=broken, count=loss.count)
    return History(attempt_id=attempt_id, series=made)


def _series(steps: tuple[int, ...], values: list[float], spread: float) -> Series:
    return Series(
        steps=steps,
        lows=tuple(value - spread for value in values),
        highs=tuple(value + spread for value in values),
        last=tuple(values),
        count=len(values),
    )


def attempts() -> dict[str, Any]:
    shown = (
        AttemptShown(attempt_id=ATTEMPT, job_id="job_1", job_name="lunar lander", attempt=2, started=time.time() - 200),
        AttemptShown(attempt_id=OLDER, job_id="job_1", job_name="lunar lander", attempt=1, started=time.time() - 9000),
    )
    return {"attempts": [json.loads(encode(attempt)) for attempt in shown]}


class ScriptedCore:
    """Serves one home from threads of this process; ``requests`` is what was asked, in order."""

    def __init__(self, home: Path, status: WorkerStatus | None = None, behaviour: Behaviour = "normal") -> None:
        self.paths = find_paths(str(home))
        self.status = status or unpaired()
        self.behaviour: Behaviour = behaviour
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.errors: dict[str, ErrorBody] = {}
        """Operations that fail, and how."""
        self.history_has_nan = False
        self.rules = OwnerRules()
        self.has_attempts = True
        self.unpair_confirmed = True
        self.outcome = threading.Event()
        self.outcome_is = PairOutcome(state="approved", worker_id="wrk_1", worker_name="den-workstation")
        self.subscribed_metrics = False
        self.ended = threading.Event()
        self._rev = 0
        self._clients: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        path = self.paths.control_socket
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._write_endpoint()
        self._start(self._accept)

    def set_status(self, status: WorkerStatus) -> None:
        """Change the truth and tell everybody."""
        self.status = status
        with self._lock:
            clients = tuple(self._clients)
        for client in clients:
            self._snapshot(client)

    def emit_metric(self, step: int, values: dict[str, Any], attempt_id: str = ATTEMPT, lost: int = 0) -> None:
        """Send a point of the running attempt."""
        self._broadcast(MetricEvent(attempt_id=attempt_id, step=step, ts=time.time(), values=values, lost=lost))

    def ping(self) -> None:
        self._broadcast(Ping())

    def asked(self, op: str) -> list[dict[str, Any]]:
        """Return the arguments of every request for ``op``."""
        return [args for name, args in self.requests if name == op]

    def close(self, *, clean: bool = True) -> None:
        """Leave; a clean end takes control.json away."""
        if self.ended.is_set():
            return
        self.ended.set()
        self.outcome.set()
        if clean:
            self.paths.control_file.unlink(missing_ok=True)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            clients = tuple(self._clients)
        for client in clients:
            _shut(client)
        for thread in self._threads:
            thread.join(timeout=5)

    def _write_endpoint(self) -> None:
        endpoint = Endpoint(
            v=PROTOCOL_VERSION,
            transport="unix",
            address=str(self.paths.control_socket),
            token=TOKEN,
            pid=os.getpid(),
            started=psutil.Process().create_time(),
            version="0.1.0",
        )
        self.paths.control_file.parent.mkdir(parents=True, exist_ok=True)
        self.paths.control_file.write_bytes(encode(endpoint))
        self.paths.control_file.chmod(0o600)

    def _start(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._clients.add(client)
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as lines:
            try:
                for line in lines:
                    self._on_line(client, json.loads(line))
            except OSError:
                pass
            finally:
                with self._lock:
                    self._clients.discard(client)

    def _on_line(self, client: socket.socket, line: dict[str, Any]) -> None:
        if self.behaviour == "silent":
            return
        if self.behaviour == "garbage":
            client.sendall(b"\xff\xfe not a message\n")
            return
        kind = line["type"]
        if kind == "hello":
            assert line["token"] == TOKEN
            later = 1 if self.behaviour == "newer" else 0
            self._send(client, Welcome(v=PROTOCOL_VERSION + later, version="0.1.0", pid=os.getpid()))
        elif kind == "subscribe":
            self.subscribed_metrics = bool(line.get("metrics"))
            self._snapshot(client)
        elif kind == "request":
            self.requests.append((line["op"], line.get("args", {})))
            if self.behaviour == "slow":
                time.sleep(2)
            if line["op"] == "pair-wait":
                self._start(self._answer_outcome, client, line["id"])
            else:
                self._answer(client, line["id"], line["op"], line.get("args", {}))

    def _answer_outcome(self, client: socket.socket, request_id: str) -> None:
        self.outcome.wait(60)
        self._send(client, Reply(id=request_id, ok=json.loads(encode(self.outcome_is))))

    def _answer(self, client: socket.socket, request_id: str, op: str, args: dict[str, Any]) -> None:
        if op in self.errors:
            self._send(client, Reply(id=request_id, error=self.errors[op]))
            return
        self._send(client, Reply(id=request_id, ok=self._ok(op, args)))
        if op == "mode":
            self._change_mode(args["mode"])
        elif op == "give-back":
            given = GivenBackShown(since=time.time(), until=args["until"], freed_s=3.0)
            self.set_status(paired("paused", mode=ModesShown(here="run"), given_back=given))
        elif op == "pair":
            self.set_status(waiting())
        elif op == "pair-cancel":
            self.outcome_is = PairOutcome(state="canceled")
            self.outcome.set()
            self.set_status(unpaired())
        elif op == "unpair":
            self.set_status(unpaired())
        elif op == "quit":
            threading.Thread(target=self.close, daemon=True).start()

    def _ok(self, op: str, args: dict[str, Any]) -> Any:
        if op == "pair":
            return json.loads(encode(pairing()))
        if op == "unpair":
            return {"revoked_on_coordinator": self.unpair_confirmed}
        if op == "rules":
            return json.loads(encode(self.rules))
        if op == "set-rules":
            self.rules = convert(args, OwnerRules)
        if op == "coordinator-setup":
            return {"url": "http://127.0.0.1:8470"}
        if op == "attempts":
            return attempts() if self.has_attempts else {"attempts": []}
        if op == "history":
            return json.loads(encode(history(args["attempt_id"], with_nan=self.history_has_nan)))
        return {}

    def _change_mode(self, mode: str) -> None:
        state = {"run": "available", "drain": "paused", "stop": "paused"}[mode]
        if self.status.job is not None and mode != "stop":
            self.set_status(training(state="draining" if mode == "drain" else "training", mode=ModesShown(here=mode)))  # type: ignore[arg-type]
        else:
            self.set_status(paired(state, mode=ModesShown(here=mode)))  # type: ignore[arg-type]

    def _snapshot(self, client: socket.socket) -> None:
        self._rev += 1
        self._send(client, Snapshot(rev=self._rev, status=self.status))

    def _broadcast(self, message: Message) -> None:
        with self._lock:
            clients = tuple(self._clients)
        for client in clients:
            self._send(client, message)

    @staticmethod
    def _send(client: socket.socket, message: Message) -> None:
        try:
            client.sendall(encode(message) + b"\n")
        except OSError:
            return  # the client left; its own thread sees that too


def _shut(client: socket.socket) -> None:
    try:
        client.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # closed by the other end already
