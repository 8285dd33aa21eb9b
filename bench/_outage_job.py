"""A job that does nothing but say points, a third of them not finite, evenly over a time: for the outage benchmark."""

import argparse
import os
import sys
import time

from worker_core.wire.codec import Number
from worker_core.wire.events import Log, Metric
from worker_core.wire.frames import Done, Frame, FrameBody, Usage, pack

SPECIAL: tuple[Number, ...] = ("NaN", "Infinity", "-Infinity")
LINE_EVERY = 10


def value_of(step: int) -> Number:
    """Return what the job says at a step."""
    return SPECIAL[step // 3 % 3] if step % 3 == 0 else step / 7


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--workspace")
    parser.add_argument("--frames-fd", type=int)
    parser.add_argument("--orders-fd", type=int)
    asked = parser.parse_args()
    said = 0

    def say(body: FrameBody) -> None:
        nonlocal said
        data = pack(Frame(id=said, body=body))
        while data:
            data = data[os.write(asked.frames_fd, data) :]
        said += 1

    began = time.monotonic()
    for step in range(1, asked.points + 1):
        time.sleep(max(0.0, began + asked.seconds * step / asked.points - time.monotonic()))
        say(Metric(ts=time.time(), step=step, values={"loss": value_of(step)}))
        if step % LINE_EVERY == 0:
            say(Log(ts=time.time(), stream="stdout", text=f"step {step}"))
    say(Done(outcome="succeeded", usage=Usage(steps=asked.points)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
