"""A core for one job: starts the real process, acknowledges its frames, gives it orders."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from worker_core.wire.events import Log, Metric, Status
from worker_core.wire.frames import ArtifactReady, Done, Frame, FrameBody, FrameSplitter, Order, pack, unpack_frame
from worker_core.wire.spec import canonical_text

GUARD_S = 90.0


class ScriptedCore:
    """The other end of a job's pipes."""

    def __init__(self, workspace: Path, *, acks: bool = True, piped: bool = False) -> None:
        frames_read, frames_write = os.pipe()
        orders_read, self._orders = os.pipe()
        command = [sys.executable, "-I", "-m", "worker_core.training", "--workspace", str(workspace)]
        descriptors = ["--frames-fd", str(frames_write), "--orders-fd", str(orders_read)]
        self.workspace = workspace
        self.bodies: list[FrameBody] = []
        self.ids: list[int] = []
        self._acks = acks
        self._heard = threading.Condition()
        self._stdout = (workspace / "stdout.txt").open("wb")
        self.process = subprocess.Popen(
            [*command, *descriptors],
            pass_fds=(frames_write, orders_read),
            cwd=workspace,
            stdout=subprocess.PIPE if piped else self._stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(frames_write)
        os.close(orders_read)
        self._reader = threading.Thread(target=self._read, args=(frames_read,))
        self._reader.start()

    def _read(self, descriptor: int) -> None:
        splitter = FrameSplitter()
        while data := os.read(descriptor, 65536):
            for payload in splitter.feed(data):
                self._take(unpack_frame(payload))
        os.close(descriptor)

    def _take(self, frame: Frame) -> None:
        with self._heard:
            self.bodies.append(frame.body)
            self.ids.append(frame.id)
            self._heard.notify_all()
        if self._acks:
            self.order(Order(ack=frame.id))

    def order(self, order: Order) -> None:
        self.write(pack(order))

    def write(self, data: bytes) -> None:
        try:
            os.write(self._orders, data)
        except OSError:
            assert self.process.poll() is not None or self._orders < 0

    def close_orders(self) -> None:
        """Do what a core does when it dies."""
        descriptor, self._orders = self._orders, -1
        os.close(descriptor)

    def vanish(self) -> None:
        """Die with everything that a core holds, the ends of the job's output too."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.close_orders()

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)

    def wait_for(self, wanted: Callable[[FrameBody], bool]) -> FrameBody:
        """Wait for the first frame that is wanted."""
        with self._heard:
            found = self._heard.wait_for(
                lambda: any(map(wanted, self.bodies)) or self.process.poll() is not None, GUARD_S
            )
            assert found, f"no such frame in {GUARD_S} s"
        return next(body for body in self.bodies if wanted(body))

    def wait(self) -> int:
        code = self.process.wait(timeout=GUARD_S)
        self._reader.join(timeout=10)
        return code

    def output(self) -> str:
        return (self.workspace / "stdout.txt").read_text()

    def done(self) -> Done:
        return next(body for body in self.bodies if isinstance(body, Done))

    def logs(self) -> list[str]:
        return [body.text for body in self.bodies if isinstance(body, Log)]

    def metrics(self) -> list[tuple[int, dict[str, object]]]:
        return [(body.step, dict(body.values)) for body in self.bodies if isinstance(body, Metric)]

    def phases(self) -> list[str]:
        return list(dict.fromkeys(body.phase for body in self.bodies if isinstance(body, Status)))

    def artifacts(self, kind: str) -> list[ArtifactReady]:
        return [body for body in self.bodies if isinstance(body, ArtifactReady) and body.kind == kind]

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self.process.wait(timeout=10)
        self._reader.join(timeout=10)
        if self._orders >= 0:
            self.close_orders()
        self._stdout.close()


class JobShop:
    """Makes workspaces as a core does, and starts jobs in them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cores: list[ScriptedCore] = []

    def workspace(self, spec: dict[str, object], code: dict[str, str] | None = None) -> Path:
        path = self._folder / f"ws{len(list(self._folder.iterdir()))}"
        path.mkdir()
        (path / "spec.json").write_text(canonical_text(spec))
        (path / "job.json").write_text(json.dumps({"job_id": "job_1", "attempt_id": "att_1", "attempt": 1}))
        for name, text in (code or {}).items():
            file = path / "code" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return path

    def start(self, workspace: Path, *, acks: bool = True, piped: bool = False) -> ScriptedCore:
        core = ScriptedCore(workspace, acks=acks, piped=piped)
        self._cores.append(core)
        return core

    def run(self, spec: dict[str, object], code: dict[str, str] | None = None) -> ScriptedCore:
        """Run a job to its end."""
        core = self.start(self.workspace(spec, code))
        core.wait()
        return core

    def resume(
        self, spec: dict[str, object], checkpoint: Path, sha256: str, step: int, code: dict[str, str] | None = None
    ) -> ScriptedCore:
        """Start a second attempt from a checkpoint of the first."""
        workspace = self.workspace(spec, code)
        (workspace / "resume").mkdir()
        (workspace / "resume" / "checkpoint").write_bytes(checkpoint.read_bytes())
        (workspace / "resume" / "resume.json").write_text(json.dumps({"step": step, "sha256": sha256}))
        return self.start(workspace)

    def close(self) -> None:
        for core in self._cores:
            core.close()


def quick_spec(simulator: str = "CartPole-v1", **changes: object) -> dict[str, object]:
    """Return a spec that trains for a moment; ``changes`` replace its top-level keys."""
    spec: dict[str, object] = {
        "kind": "rl-session",
        "name": "quick",
        "seed": 3,
        "system": {"simulator": {"entry": f"gymnasium:{simulator}"}},
        "training": {"cycles": 4, "simulators": 3, "decisions_per_cycle": 400, "rollout_fragment_length": 64},
        "ppo": {"n_epochs": 3},
        "benchmark": {"episodes_per_scenario": 3, "non_deterministic": True},
        "checkpoint": {"every_minutes": 0.01, "keep": 100},
    }
    return spec | changes


def wait_until(condition: Callable[[], bool], within_s: float = GUARD_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.02)
