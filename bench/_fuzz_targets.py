"""Every parser that reads what came over a border, with what it may raise; anything else that it raises is a finding.

A target also checks what must hold of what it took: that it encodes to itself, lies inside its folder, fits its limits.
"""

import hashlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joserfc import jws
from joserfc.jwk import OKPKey
from safetensors.numpy import save
from starlette.exceptions import HTTPException

from app.cli.errors import WrongUsage
from app.cli.spec_files import read_spec
from coordinator.accounts.proofs import Nonces, Proofs
from coordinator.api.ranges import slice_for
from coordinator.clock import SystemClock as CoordinatorClock
from coordinator.settings import BadSettings as BadCoordinatorSettings
from coordinator.settings import load_settings
from worker_core.control.endpoint import BadEndpoint, read_endpoint
from worker_core.control.messages import ClientLine, CoreLine, HistoryArgs, ModeArgs, PairArgs, QuitArgs, Request
from worker_core.core.settings import BadSettings, read_settings
from worker_core.jobs.bundle import BadBundle, unpack_bundle
from worker_core.link.address import Address
from worker_core.link.exchange import Exchanger, WorkerRevoked, read_count
from worker_core.link.faults import BadAddress, TransportFault
from worker_core.link.http import RawAnswer
from worker_core.link.identity import WorkerKey
from worker_core.link.route import Route
from worker_core.link.signatures import NotSignedForUs, PinnedCoordinator
from worker_core.machine.clocks import SystemClock
from worker_core.machine.paths import find_paths
from worker_core.machine.redaction import Redactor
from worker_core.training.checkpoints import load_checkpoint
from worker_core.training.failures import JobFailure
from worker_core.wire.codec import BadMessage, convert, decode, encode
from worker_core.wire.durations import BadDuration, format_duration, parse_duration
from worker_core.wire.frames import FrameSplitter, Order, pack, unpack_frame, unpack_order
from worker_core.wire.pairing import PairingApproved, PairingRequest
from worker_core.wire.problems import Problem, ProblemError
from worker_core.wire.session import SessionRequest, SessionStarted
from worker_core.wire.signed import Offer, Revocation
from worker_core.wire.spec import BadSpec, canonical_text, load_spec
from worker_core.wire.status import WorkerStatus
from worker_core.wire.work import Accepted, Completion, EventBatch, Heartbeat, HeartbeatAnswer, PollAnswer, PollRequest

_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True)
class Target:
    """One parser: ``read`` returns for what it took or refused properly, and raises for a finding."""

    read: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


# What the parsers need: keys, folders, a coordinator that is pinned

_KEY = OKPKey.generate_key("Ed25519")
_PUBLIC = {name: str(value) for name, value in _KEY.as_dict(private=False).items()}
_PINNED = PinnedCoordinator(worker_id="wrk_1", thumbprint="print", jwks={"keys": [_PUBLIC]})
_WORKER = WorkerKey.generate()
_NAMED: dict[str, Any] = {"worker_id": "wrk_1", "thumbprint": "print", "gen": 1}
_OFFER = Offer(
    **_NAMED, attempt_id="att_1", job_id="job_1", epoch=1, kind="rl-session", spec_sha256="0" * 64, inputs=()
)
_REVOCATION = Revocation(**_NAMED, revoked_at="2026-01-01T00:00:00Z", by="ada", reason="sold")
_SIGNED = tuple(
    jws.serialize_compact({"alg": "Ed25519"}, encode(said), _KEY, algorithms=["Ed25519"]).encode()
    for said in (_OFFER, _REVOCATION)
)
_FOLDER = Path(tempfile.mkdtemp(prefix="stoker-fuzz-"))


def clean_up() -> None:
    """Remove what the targets wrote."""
    shutil.rmtree(_FOLDER, ignore_errors=True)


# Messages

_KINDS: tuple[type[Any], ...] = (
    *(SessionRequest, SessionStarted, PollRequest, PollAnswer, Heartbeat, HeartbeatAnswer, Accepted, EventBatch),
    *(Completion, PairingRequest, PairingApproved, Problem, WorkerStatus, PairArgs, ModeArgs, QuitArgs, HistoryArgs),
)


def messages(data: bytes) -> None:
    """Read as every kind of message; what is taken encodes, and reads back as itself."""
    for kind in _KINDS:
        _round_trip(data, kind)


def control_lines(data: bytes) -> None:
    """Read as lines of the control channel, from either side."""
    for line in data.split(b"\n"):
        for kind in (ClientLine, CoreLine):
            said = _round_trip(line, kind)
            if isinstance(said, Request):
                for args in (PairArgs, ModeArgs, QuitArgs, HistoryArgs):
                    _refusing(BadMessage, lambda args=args, said=said: convert(said.args, args))


def _round_trip(data: bytes, kind: Any) -> Any:
    try:
        said = decode(data, kind)
    except BadMessage:
        return None
    again = decode(encode(said), kind)
    assert encode(again) == encode(said), f"{kind} does not read back as itself"
    return said


def frames(data: bytes) -> None:
    """Read as the pipe between core and job, cut anywhere."""
    cut = len(data) // 3
    payloads: list[bytes] = []
    splitter = FrameSplitter()
    for part in (data[:cut], data[cut:]):
        if not _refusing(BadMessage, lambda part=part: payloads.extend(splitter.feed(part))):
            return
    for payload in payloads:
        _refusing(BadMessage, lambda payload=payload: pack(unpack_frame(payload)))
        _refusing(BadMessage, lambda payload=payload: pack(unpack_order(payload)))


# Answers and headers

_EXCHANGER = Exchanger(Address.parse("http://127.0.0.1:1"), _WORKER, SystemClock())
_EXCHANGER.pinned = _PINNED


def answers(data: bytes) -> None:
    """Read as an HTTP answer: a status, headers by line, an empty line, the body."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.decode("latin-1").split("\n")
    headers = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = read_count(first.strip()) or 200
    for method in ("GET", "HEAD"):
        answer = RawAnswer(status % 600, _Headers(headers), body)
        try:
            _EXCHANGER.read(_EXCHANGER.believe(answer, method), PollAnswer)
        except (TransportFault, ProblemError, WorkerRevoked):
            continue


class _Headers(dict[str, str]):
    """Headers whose names may be in any case, as the HTTP library has them."""

    def __init__(self, given: dict[str, str]) -> None:
        super().__init__({name.lower(): value for name, value in given.items()})

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


def ranges(data: bytes) -> None:
    """Read as a Range header of a file of some size."""
    size = len(data) * 7
    try:
        found = slice_for(data.decode("latin-1"), size)
    except HTTPException:
        return
    assert 0 <= found.start <= found.end <= size


def addresses(data: bytes) -> None:
    """Read as the address of a coordinator, and of a proxy."""
    text = data.decode("utf-8", "replace")
    _refusing(BadAddress, lambda: Route.checked(text, ""))
    try:
        address = Address.parse(text)
    except BadAddress:
        return
    assert address.secure or address.loopback, "an address that is not encrypted was taken"
    assert Address.parse(address.url) == address


# Signed objects

_PROOFS = Proofs(Nonces(CoordinatorClock(), 300.0), ["https://stoker.example.org"])


def signed_objects(data: bytes) -> None:
    """Read as offer, revocation and next key: only what our key signed is believed."""
    text = data.decode("utf-8", "replace")
    for read in (
        lambda: _PINNED.offer(text, 1),
        lambda: _PINNED.revocation(text),
        lambda: _PINNED.with_next_key(text, 1),
    ):
        believed = _refusing(NotSignedForUs, read)
        assert not believed or data.rsplit(b".", 1)[0] in {seed.rsplit(b".", 1)[0] for seed in _SIGNED}


def proofs(data: bytes) -> None:
    """Read as a DPoP header; without the secret of this start none has a good nonce."""
    text = data.decode("utf-8", "replace")
    believed = _refusing(ProblemError, lambda: _PROOFS.check(text, "POST", "/v1/poll"))
    assert not believed


# Files


def bundles(data: bytes) -> None:
    """Read as a job's code: nothing lies outside the folder, and no link in it."""
    archive, target = _FOLDER / "code.tar.gz", _FOLDER / "code"
    archive.write_bytes(data)
    before = {path.name for path in _FOLDER.iterdir()}
    try:
        _refusing(BadBundle, lambda: unpack_bundle(archive, target, max_bytes=_LIMIT_BYTES))
        for path in target.rglob("*"):
            assert not path.is_symlink()
        assert {path.name for path in _FOLDER.iterdir()} == before | {"code"}
    finally:
        for path in (target, *target.rglob("*")):
            path.chmod(0o700)
        shutil.rmtree(target)


def checkpoints(data: bytes) -> None:
    """Read as a checkpoint whose hash is right, as somebody would write it who wants us to load it."""
    path = _FOLDER / "checkpoint"
    path.write_bytes(data)
    try:
        _refusing(JobFailure, lambda: load_checkpoint(path, hashlib.sha256(data).hexdigest(), "0" * 64))
    finally:
        path.unlink()


def specs(data: bytes) -> None:
    """Read as a job spec in each language a person may write it in."""
    for suffix in (".json", ".toml", ".yaml", ""):
        path = _FOLDER / f"spec{suffix}"
        path.write_bytes(data)
        try:
            raw = read_spec(path)
            spec = load_spec(canonical_text(raw))
            assert load_spec(canonical_text(spec)) == spec
        except (WrongUsage, BadSpec):
            continue
        finally:
            path.unlink()


def coordinator_settings(data: bytes) -> None:
    """Read as coordinator.toml."""
    (_FOLDER / "coordinator.toml").write_bytes(data)
    try:
        _refusing(BadCoordinatorSettings, lambda: load_settings(_FOLDER))
    finally:
        (_FOLDER / "coordinator.toml").unlink()


def worker_files(data: bytes) -> None:
    """Read as settings.json and as control.json."""
    paths = find_paths(str(_FOLDER / "home"))
    for file in (paths.settings_file, paths.control_file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(0o600)
    _refusing(BadSettings, lambda: read_settings(paths).route())
    _refusing(BadEndpoint, lambda: read_endpoint(paths))


def redaction(data: bytes) -> None:
    """Take as output of a job, cut anywhere: no part of the secret comes out, whatever stands around it."""
    redactor = Redactor()
    redactor.add(_SECRET)
    cut, stream = len(data) // 2, redactor.stream()
    shown = stream.feed(data[:cut]) + stream.feed(data[cut:]) + stream.close()
    assert _SECRET not in shown
    assert _SECRET not in redactor.redact_bytes(data)


def durations(data: bytes) -> None:
    """Read as a duration that a person types."""
    text = data.decode("utf-8", "replace")
    _refusing(BadDuration, lambda: format_duration(parse_duration(text)))


def _refusing(refusal: type[Exception], read: Callable[[], object]) -> bool:
    """Whether it was taken; a proper refusal is none."""
    try:
        read()
    except refusal:
        return False
    return True


# Seeds: something good of each kind, to begin from


def _bundle() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in ("train.py", "pkg/__init__.py"):
            entry = tarfile.TarInfo(name)
            entry.size = 6
            tar.addfile(entry, io.BytesIO(b"pass\n\n"))
    return packed.getvalue()


_SECRET = b"s3cr3t/of a worker+42"
_SPEC = b"""kind = "rl-session"
name = "walk"
[[training.skills]]
name = "balance"
"""
_PROBLEM = encode(Problem(title="No", status=401, code="worker-revoked", retryable=False, signed=_SIGNED[1].decode()))
_METRIC = b'{"id":1,"t":"m","ts":1.5,"step":3,"values":{"a":1.0,"b":"NaN","c":1e400}}'
_CHECKPOINT = save({"w": np.zeros((2, 2), np.float32)}, {"schema": "1", "spec_sha256": "0" * 64, "state": "{}"})

TARGETS: dict[str, Target] = {
    "messages": Target(
        messages,
        (
            encode(PollRequest()),
            encode(Heartbeat(n=1)),
            b'{"epoch":1,"first_seq":0,"events":[{"t":"m","ts":1,"step":2,"values":{"x":"NaN"}},{"t":"gap","ts":1,"reason":"r"}]}',
            encode(WorkerStatus(state="available")),
            b'{"control":{"gen":1,"rev":2,"console_mode":"run","authorization":{"expires_at":"x","remaining_s":1e9}}}',
            _PROBLEM,
        ),
    ),
    "control-lines": Target(
        control_lines,
        (
            b'{"type":"hello","v":1,"token":"t","client":"c"}\n{"type":"subscribe","metrics":true}\n{"type":"ping"}',
            b'{"type":"request","id":"1","op":"mode","args":{"mode":"stop","now":true}}',
        ),
    ),
    "frames": Target(frames, (len(_METRIC).to_bytes(4, "big") + _METRIC, pack(Order(do="stop", grace_s=3.0)))),
    "answers": Target(
        answers,
        (
            b"200\nStoker-Gen: 1\nContent-Type: application/json\nDate: Wed, 01 Jan 2025 00:00:00 GMT\n\n{}",
            b"401\nStoker-Gen: 1\nContent-Type: application/problem+json\nRetry-After: 7\n\n" + _PROBLEM,
            b"429\nstoker-gen: 2\ncontent-type: application/problem+json; charset=utf-8\nRetry-After: soon\n\n{}",
        ),
    ),
    "ranges": Target(ranges, (b"bytes=0-5", b"bytes=-3", b"bytes=7-", b"bytes=1-2,4-5")),
    "addresses": Target(
        addresses,
        (
            b"https://stoker.example.org:8443/a/",
            b"localhost:80",
            b"[::1]:9",
            b"http://user:pass@127.0.0.1",
            b"x.localhost",
        ),
    ),
    "signed-objects": Target(signed_objects, _SIGNED),
    "proofs": Target(proofs, (_SIGNED[0], b"e30.e30.AAAA")),
    "bundles": Target(bundles, (_bundle(),)),
    "checkpoints": Target(checkpoints, (_CHECKPOINT,)),
    "specs": Target(
        specs, (_SPEC, b'{"kind": "rl-session", "name": "walk"}', b"kind: rl-session\nname: walk\nlr: 3e-4\n")
    ),
    "coordinator-settings": Target(coordinator_settings, (b"lease_ttl_s = 300.0\n[worker]\nheartbeat_s = 15.0\n",)),
    "worker-files": Target(
        worker_files,
        (
            b'{"embedded_port": 8080, "log_level": "debug", "proxy": "http://u:p@proxy:3128", "secret_env": ["A"]}',
            b'{"v":1,"transport":"unix","address":"/run/x","token":"t","pid":1,"started":1.0,"version":"1"}',
        ),
    ),
    "redaction": Target(redaction, (b"a " + _SECRET + b" b", b"czNjcjN0L29mIGEgd29ya2VyKzQy", _SECRET * 3)),
    "durations": Target(durations, (b"1h30m", b"90s", "²h".encode())),
}
