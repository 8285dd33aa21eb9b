"""A tiny job process for tests, standard library only: ``job.py BEHAVIOUR --workspace W …``."""

import argparse
import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


class Pipe:
    """The job's side of the frame channel."""

    def __init__(self, workspace, frames, orders):
        self.workspace = Path(workspace)
        self.frames = frames
        self.orders = orders
        self.sent = 0
        self.acked = 0
        self._buffer = b""

    def send(self, **body):
        self.sent += 1
        payload = json.dumps({"id": self.sent, **body}).encode()
        os.write(self.frames, struct.pack(">I", len(payload)) + payload)

    def status(self, step=0, phase="training"):
        self.send(t="s", ts=time.time(), phase=phase, step=step, progress=0.5)

    def metric(self, step, **values):
        self.send(t="m", ts=time.time(), step=step, values=values)

    def done(self, outcome, **more):
        self.send(t="done", outcome=outcome, **more)
        self.wait_acked()

    def next_order(self, timeout):
        """Return an order, {} when none came, None when the core is gone."""
        deadline = time.monotonic() + timeout
        while True:
            if len(self._buffer) >= 4:
                (length,) = struct.unpack(">I", self._buffer[:4])
                if len(self._buffer) >= 4 + length:
                    order = json.loads(self._buffer[4 : 4 + length])
                    self._buffer = self._buffer[4 + length :]
                    if "ack" not in order:
                        return order
                    self.acked = order["ack"]
                    if timeout == 0:
                        return {}
                    continue
            ready, _, _ = select.select([self.orders], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                return {}
            data = os.read(self.orders, 65536)
            if not data:
                return None
            self._buffer += data

    def wait_acked(self, limit=20):
        deadline = time.monotonic() + limit
        while self.acked < self.sent and time.monotonic() < deadline:
            if self.next_order(0.05) is None:
                return

    def checkpoint(self, step, announce=True):
        path = self.workspace / "checkpoints" / f"step-{step:012d}.safetensors"
        content = f"checkpoint of step {step}".encode()
        path.write_bytes(content)
        facts = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "step": step}
        relative = str(path.relative_to(self.workspace))
        (self.workspace / "checkpoints" / "latest.json").write_text(json.dumps({"path": relative, **facts}))
        if announce:
            self.send(t="c", ts=time.time(), **facts)
            self.send(t="artifact", name=path.name, kind="checkpoint", path=relative, **facts)


def succeed(pipe):
    pipe.status()
    for step in (1, 2, 3):
        pipe.metric(step, loss=1.0 / step, odd="NaN")
    pipe.checkpoint(3)
    content = b'{"return": 1}'
    (pipe.workspace / "results" / "benchmark.json").write_bytes(content)
    facts = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    pipe.send(t="artifact", name="benchmark.json", kind="result", path="results/benchmark.json", **facts)
    print("a line of output")
    pipe.done("succeeded", usage={"seconds": 1.5, "steps": 3})
    return 0


def fail(pipe):
    error = {"failure": "bad-spec", "message": "cycles must be positive", "traceback": "Traceback …"}
    pipe.done("failed", error=error)
    return 1


def crash(pipe):
    pipe.status()
    pipe.wait_acked()
    print("about to fail", file=sys.stderr)
    raise RuntimeError("the simulator fell over")


def crash_at_start(pipe):
    print("no such module", file=sys.stderr)
    return 3


def die(pipe, number):
    pipe.status()
    pipe.wait_acked()
    os.kill(os.getpid(), number)
    time.sleep(30)


def leave_in_silence(pipe):
    pipe.status()
    return 0


def be_silent(pipe):
    pipe.status()
    time.sleep(60)


def obey(pipe):
    step = 0
    while True:
        step += 1
        pipe.metric(step, loss=float(step))
        order = pipe.next_order(0.05)
        if order is None:
            return leave_without_core(pipe, step)
        if order.get("do") == "checkpoint":
            pipe.checkpoint(step)
        if order.get("do") == "stop":
            pipe.checkpoint(step)
            print("the last line", flush=True)
            pipe.done("stopped")
            return 0


def leave_unasked(pipe):
    pipe.checkpoint(1)
    pipe.done("stopped")
    return 0


def leave_without_core(pipe, step):
    time.sleep(1)
    pipe.checkpoint(step, announce=False)
    return 75


def ignore_orders(pipe):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    step = 0
    while True:
        step += 1
        with contextlib.suppress(BrokenPipeError):  # it does not even leave when its core is gone
            pipe.metric(step, loss=float(step))
        time.sleep(0.05)


CHILD = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "open(os.environ['TMPDIR'] + f'/{os.getpid()}.ready', 'w').close(); time.sleep(600)"
)
PARENT = (
    f"import subprocess, sys, time; [subprocess.Popen([sys.executable, '-c', {CHILD!r}]) for _ in range(2)]; "
    "time.sleep(600)"
)


def grow_a_tree(pipe):
    python = sys.executable
    children = [subprocess.Popen([python, "-c", PARENT]) for _ in range(2)]
    children.append(subprocess.Popen([python, "-c", PARENT], start_new_session=True))
    # Its parent ends at once, so only the mark in the environment tells whose it is.
    orphan_maker = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {CHILD!r}], start_new_session=True)"
    )
    subprocess.run([python, "-c", orphan_maker], start_new_session=True, check=True)
    while len(list((pipe.workspace / "tmp").glob("*.ready"))) < 7:
        time.sleep(0.05)
    pipe.status(step=len(children))
    ignore_orders(pipe)


def leave_a_child(pipe):
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    pipe.done("succeeded")
    return 0


def wait_for_acks(pipe):
    step = 0
    while True:
        step += 1
        pipe.metric(step, loss=float(step))
        pipe.wait_acked(600)


def linger(pipe):
    pipe.done("succeeded")
    time.sleep(600)


def leave_at_once(pipe):
    pipe.send(t="done", outcome="succeeded")
    return 0


def write_garbage(pipe):
    pipe.status()
    os.write(pipe.frames, struct.pack(">I", 12) + b"not JSON 123")
    time.sleep(60)


def write_too_much(pipe):
    os.write(pipe.frames, struct.pack(">I", 2 << 20))
    time.sleep(60)


def tear_a_frame(pipe):
    pipe.status()
    os.write(pipe.frames, struct.pack(">I", 100) + b'{"id": 2, "t": "m"')
    return 0


def draw_progress(pipe):
    pipe.status()
    for number in range(100_000):
        sys.stderr.write(f"\r{number / 1000:.1f}%")
    sys.stderr.write("\r100.0%\n")
    sys.stderr.flush()
    pipe.done("succeeded")
    return 0


def flood(pipe):
    pipe.status()
    for number in range(5000):
        print(f"line {number}")
    sys.stdout.flush()
    pipe.done("succeeded")
    return 0


def show_environment(pipe):
    code = pipe.workspace / "code" / "main.py"
    shown = {
        "environment": dict(os.environ),
        "spec": (pipe.workspace / "spec.json").read_text(),
        "job": json.loads((pipe.workspace / "job.json").read_text()),
        "code": code.read_text() if code.exists() else None,
        "resume": (pipe.workspace / "resume" / "checkpoint").exists(),
        "argv": sys.argv,
        "nice": os.nice(0),
    }
    pipe.send(t="l", ts=time.time(), stream="stoker", text=json.dumps(shown))
    pipe.done("succeeded")
    return 0


def escape(pipe):
    pipe.send(t="artifact", name="x", kind="result", path="../../state.db", sha256="0" * 64, size=1)
    time.sleep(60)


def use_the_system(pipe):
    """Do what programs take for granted: devices, shared memory, temporary files, a shell, a name for the user."""
    import getpass
    import multiprocessing
    import tempfile
    from multiprocessing import shared_memory

    with open("/dev/null", "r+b") as null, open("/dev/urandom", "rb") as chance:
        null.write(chance.read(16))
    memory = shared_memory.SharedMemory(create=True, size=1 << 20)
    memory.close()
    memory.unlink()
    with tempfile.NamedTemporaryFile() as file, tempfile.NamedTemporaryFile(dir="/tmp") as other:
        file.write(b"x")
        other.write(b"x")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    subprocess.run(["sh", "-c", "sleep 0 & wait"], check=True)
    assert os.path.expanduser("~") == str(pipe.workspace / "tmp")
    assert getpass.getuser()
    assert os.cpu_count()
    pipe.done("succeeded")
    return 0


def pry(pipe):
    sys.path.insert(0, str(Path(__file__).parents[1] / "journeys" / "simulators"))
    import prying  # pyright: ignore[reportMissingImports]

    asked = json.loads((pipe.workspace / "spec.json").read_text())
    pipe.send(t="l", ts=time.time(), stream="stoker", text=json.dumps(prying.pry(asked)))
    pipe.done("succeeded")
    return 0


def eat_memory(pipe):
    pipe.status()
    eaten = []
    while True:
        eaten.append(b"x" * (8 << 20))
        time.sleep(0.005)


def eat_memory_in_children(pipe):
    pipe.status()
    code = "import time; eaten = b'x' * (100 << 20); time.sleep(600)"
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(6)]
    children[0].wait()


def multiply(pipe):
    pipe.status()
    children = [subprocess.Popen(["sleep", "600"]) for _ in range(80)]
    children[0].wait()


def fill_the_disk(pipe):
    pipe.status()
    (pipe.workspace / "results" / "big").write_bytes(b"x" * (2 << 20))
    while pipe.next_order(0.1) == {}:
        pass
    pipe.done("stopped")
    return 0


def eat_shared_memory(pipe):
    """Take memory that no process has for itself."""
    import mmap

    pipe.status()
    eaten = mmap.mmap(-1, 400 << 20)
    for _ in range(400):
        eaten.write(b"x" * (1 << 20))
    time.sleep(600)


def eat_memory_in_files(pipe):
    """Take memory in a file that lives in memory and that nothing maps."""
    pipe.status()
    eaten = os.memfd_create("eaten")
    for _ in range(400):
        os.write(eaten, b"x" * (1 << 20))
    time.sleep(600)


def hide_on_the_disk(pipe):
    """Write into a file that is in no folder any more."""
    pipe.status()
    with (pipe.workspace / "results" / "gone").open("wb") as file:
        os.unlink(file.name)
        file.write(b"x" * (4 << 20))
        file.flush()
        while pipe.next_order(0.1) == {}:
            pass
    pipe.done("stopped")
    return 0


def nest_deeply(pipe):
    """Make folders so deep that no path can name the last ones, and go on."""
    pipe.status()
    os.chdir(pipe.workspace / "results")
    for _ in range(60):
        os.mkdir("n" * 200)
        os.chdir("n" * 200)
    with open("hidden", "wb") as file:
        file.write(b"x" * (4 << 20))
    while pipe.next_order(0.1) == {}:
        pass
    pipe.done("stopped")
    return 0


def make_sessions(pipe):
    """Start programs in sessions of their own, which Linux weighs like any other, and push to the front."""
    for name in ("oom_score_adj", "autogroup"):
        with contextlib.suppress(OSError):
            Path("/proc/self", name).write_text("0")
    for _ in range(3):
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    obey(pipe)


def show_devices(pipe):
    """Say which device files these are, and try to change their rights to what they are already."""
    shown = {}
    for name in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/tty", 0):
        found = os.stat(name)
        shown[str(name)] = [found.st_dev, found.st_ino]
        with contextlib.suppress(OSError):
            os.chmod(name, found.st_mode & 0o7777)
    kinds = {}
    for family in (socket.AF_INET, socket.AF_UNIX, socket.AF_NETLINK, socket.AF_VSOCK, socket.AF_ALG):
        try:
            socket.socket(family, socket.SOCK_SEQPACKET if family == socket.AF_ALG else socket.SOCK_DGRAM).close()
        except OSError as error:
            kinds[family.name] = error.errno
    pipe.send(t="l", ts=time.time(), stream="stoker", text=json.dumps({"devices": shown, "refused": kinds}))
    pipe.done("succeeded")
    return 0


def note_orders(pipe):
    """Write down what comes from outside, and when; obey nothing."""
    notes = pipe.workspace / "tmp" / "notes"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: note(notes, signal.Signals(number).name))
    pipe.status()
    while True:
        order = pipe.next_order(0.02)
        if order:
            note(notes, order["do"])
        else:
            note(notes, "alive")


def note(notes, what):
    with notes.open("a") as file:
        file.write(f"{time.time()} {what}\n")


BEHAVIOURS: "dict[str, Callable[[Pipe], int | None]]" = {
    "segfault": lambda pipe: die(pipe, signal.SIGSEGV),
    "kill-itself": lambda pipe: die(pipe, signal.SIGKILL),
    "succeed": succeed,
    "fail": fail,
    "crash": crash,
    "crash-at-start": crash_at_start,
    "leave-in-silence": leave_in_silence,
    "linger": linger,
    "wait-for-acks": wait_for_acks,
    "leave-at-once": leave_at_once,
    "be-silent": be_silent,
    "obey": obey,
    "leave-unasked": leave_unasked,
    "ignore-orders": ignore_orders,
    "grow-a-tree": grow_a_tree,
    "leave-a-child": leave_a_child,
    "write-garbage": write_garbage,
    "write-too-much": write_too_much,
    "tear-a-frame": tear_a_frame,
    "draw-progress": draw_progress,
    "flood": flood,
    "show-environment": show_environment,
    "escape": escape,
    "pry": pry,
    "use-the-system": use_the_system,
    "eat-memory": eat_memory,
    "eat-memory-in-children": eat_memory_in_children,
    "multiply": multiply,
    "fill-the-disk": fill_the_disk,
    "note-orders": note_orders,
    "eat-shared-memory": eat_shared_memory,
    "eat-memory-in-files": eat_memory_in_files,
    "hide-on-the-disk": hide_on_the_disk,
    "nest-deeply": nest_deeply,
    "show-devices": show_devices,
    "make-sessions": make_sessions,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("behaviour")
    parser.add_argument("--workspace")
    parser.add_argument("--frames-fd", type=int)
    parser.add_argument("--orders-fd", type=int)
    given = parser.parse_args()
    sys.exit(BEHAVIOURS[given.behaviour](Pipe(given.workspace, given.frames_fd, given.orders_fd)))
