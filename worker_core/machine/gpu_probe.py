"""Tests one GPU in a throw-away process: whatever the driver does to that process, the core lives on."""

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import Sequence

from worker_core.machine.child_exit import wait_exit
from worker_core.machine.spawn import clean_environment, spawn
from worker_core.wire.codec import BadMessage, decode
from worker_core.wire.probe import ProbeResult

_MAX_TAIL = 300


async def probe_gpu(command: Sequence[str], uuid: str, timeout_s: float) -> ProbeResult:
    """Return what the probe says of this GPU; one that hangs is killed and counts as lost. Cancelling kills it too."""
    pipe = subprocess.PIPE
    env = clean_environment(gpu_environment([uuid]))
    try:
        process = spawn(command, env=env, stdout=pipe, stderr=pipe)
    except OSError as error:
        return ProbeResult(ok=False, failure="start-failed", text=f"the GPU test cannot be started: {error}")
    try:
        return await _hear(process, timeout_s)
    finally:
        with contextlib.suppress(OSError):
            process.kill()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def gpu_environment(uuids: Sequence[str]) -> dict[str, str]:
    """Return what makes exactly these GPUs visible to a process and its children, by their UUIDs."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(uuids), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


async def _hear(process: "subprocess.Popen[bytes]", timeout_s: float) -> ProbeResult:
    """Wait for the end of the process; it says one line, so that its pipes never fill."""
    try:
        async with asyncio.timeout(timeout_s):
            code = await wait_exit(process)
    except TimeoutError:
        return ProbeResult(ok=False, failure="device-lost", text=f"it did not answer within {timeout_s:g} s")
    assert process.stdout is not None
    assert process.stderr is not None
    lines, errors = process.stdout.read().splitlines(), process.stderr.read().decode(errors="replace").strip()
    try:
        return decode(lines[-1] if lines else b"", ProbeResult)
    except BadMessage:
        return _without_result(code, errors)


def _without_result(code: int, errors: str) -> ProbeResult:
    if code < 0:
        text = f"its test was ended by {signal.Signals(-code).name}"
        return ProbeResult(ok=False, failure="device-lost", text=text)
    tail = errors[-_MAX_TAIL:] or f"exit code {code}"
    return ProbeResult(ok=False, failure="start-failed", text=f"its test could not run: {tail}")
