"""A job for tests: counts steps as its spec says, saves checkpoints, obeys orders. Speaks real frames."""

import argparse
import hashlib
import json
import os
import select
import sys
import time
from pathlib import Path

from worker_core.wire.events import CheckpointSaved, Metric, Status
from worker_core.wire.frames import ArtifactReady, Done, Frame, FrameBody, FrameSplitter, Usage, pack, unpack_order


class TinyJob:
    def __init__(self, workspace: Path, frames: int, orders: int) -> None:
        self.workspace, self.frames, self.orders = workspace, frames, orders
        self.spec = json.loads((workspace / "spec.json").read_text())
        self.splitter = FrameSplitter()
        self.sent = 0
        self.step = 0
        resume = workspace / "resume" / "resume.json"
        if resume.exists():
            self.step = json.loads(resume.read_text())["step"]

    def say(self, body: FrameBody) -> None:
        try:
            os.write(self.frames, pack(Frame(id=self.sent, body=body)))
        except BrokenPipeError:
            if not self.spec.get("deaf"):
                raise
        self.sent += 1

    def save(self, kind: str, name: str) -> None:
        folder = self.workspace / ("checkpoints" if kind == "checkpoint" else "results")
        folder.mkdir(exist_ok=True)
        content = f"{kind} at step {self.step}".encode() * 50
        digest = hashlib.sha256(content).hexdigest()
        file = folder / name
        file.write_bytes(content)
        if kind == "checkpoint":
            self.say(CheckpointSaved(ts=time.time(), step=self.step, sha256=digest, size=len(content)))
        path = str(file.relative_to(self.workspace))
        self.say(ArtifactReady(name=name, kind=kind, path=path, sha256=digest, size=len(content), step=self.step))

    def order(self) -> str | None:
        """Return the next order: checkpoint, stop, or gone when the core is."""
        while select.select([self.orders], [], [], 0)[0]:
            got = os.read(self.orders, 65536)
            if not got:
                return "gone"
            for payload in self.splitter.feed(got):
                order = unpack_order(payload)
                if order.do is not None:
                    return order.do
        return None

    def run(self) -> int:
        while self.step < self.spec["steps"]:
            time.sleep(self.spec.get("pause_s", 0.01))
            self.step += 1
            self.say(Metric(ts=time.time(), step=self.step, values={"score": float(self.step)}))
            progress = self.step / self.spec["steps"]
            self.say(Status(ts=time.time(), phase="counting", step=self.step, progress=progress))
            if self.step % self.spec.get("checkpoint_every", 10) == 0:
                self.save("checkpoint", f"step-{self.step}")
            order = self.order()
            if order == "checkpoint":
                self.save("checkpoint", f"step-{self.step}")
            if order in ("stop", "gone"):
                if self.spec.get("deaf"):
                    continue
                self.save("checkpoint", f"step-{self.step}")
                self.say(Done(outcome="stopped", usage=Usage(steps=self.step)))
                return 0 if order == "stop" else 75
        if self.spec.get("raise"):
            raise RuntimeError(self.spec["raise"])
        self.save("result", "result.txt")
        self.say(Done(outcome="succeeded", usage=Usage(steps=self.step)))
        return 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workspace", type=Path)
    parser.add_argument("--frames-fd", type=int)
    parser.add_argument("--orders-fd", type=int)
    options = parser.parse_args()
    print("the tiny job starts", flush=True)
    return TinyJob(options.workspace, options.frames_fd, options.orders_fd).run()


if __name__ == "__main__":
    sys.exit(main())
