"""Starts a job process on Linux and macOS: its pipes are inherited file descriptors."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from worker_core.machine.spawn import spawn


def start_with_pipes(
    command: Callable[[int, int], list[str]],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: tuple[int, int],
    inherit: Sequence[int] = (),
) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start ``command(frames, orders)`` and return the process, our end of its frames and our end of its orders.

    ``inherit`` are further file descriptors that it keeps.
    """
    frames_in, frames_out = os.pipe()
    orders_in, orders_out = os.pipe()
    nothing, writer = os.pipe()
    os.close(writer)
    try:
        process = spawn(
            command(frames_out, orders_in),
            cwd=cwd,
            env=env,
            # Not the machine's /dev/null, which lies outside of any sandbox: a job of root could change its rights.
            stdin=nothing,
            stdout=output[0],
            stderr=output[1],
            inherit=(frames_out, orders_in, *inherit),
        )
    except BaseException:
        os.close(frames_in)
        os.close(orders_out)
        raise
    finally:
        os.close(frames_out)
        os.close(orders_in)
        os.close(nothing)
    return process, frames_in, orders_out
