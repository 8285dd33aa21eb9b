"""The short test of one GPU, in a process of its own: `python -I -m worker_core.training.probe`.

The core names the device by its UUID in ``CUDA_VISIBLE_DEVICES``, so that exactly one is visible here. Whatever
happens to this process, a hang included, the core lives on. The last line of the output is the result.
"""

import sys
import time
from pathlib import Path

import msgspec
import torch

from worker_core.training.failures import classify
from worker_core.wire.codec import encode
from worker_core.wire.probe import ProbeResult

SIZE = 512
_LARGEST_FACTOR = 16
"""Factors below this keep every sum a whole number below 2^24, which float32 holds exactly."""
_LEAST_FREE_BYTES = 256 << 20
_MAX_TEXT = 500


def main() -> int:
    """Test the one visible GPU and print what was found."""
    began = time.monotonic()
    try:
        result = _test()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:_MAX_TEXT]
        failure = classify(error, Path.cwd())
        result = ProbeResult(ok=False, failure="device-lost" if failure == "exception" else failure, text=text)
    timed = msgspec.structs.replace(result, seconds=round(time.monotonic() - began, 3))
    sys.stdout.write(encode(timed).decode() + "\n")
    return 0


def _test() -> ProbeResult:
    torch.cuda.init()
    count = torch.cuda.device_count()
    if count != 1:
        return ProbeResult(ok=False, failure="device-lost", text=f"{count} GPUs are visible instead of this one")
    name = torch.cuda.get_device_name(0)
    free, total = torch.cuda.mem_get_info(0)
    if free < _LEAST_FREE_BYTES:
        return ProbeResult(ok=False, failure="gpu-out-of-memory", text=f"only {free >> 20} MiB of its memory are free")
    if not calculates_right(torch.device("cuda", 0)):
        return ProbeResult(ok=False, failure="device-lost", text="it calculates wrong")
    return ProbeResult(ok=True, name=name, free_bytes=free, total_bytes=total)


def calculates_right(device: torch.device) -> bool:
    """Multiply two matrices of small whole numbers on ``device`` and compare with exact arithmetic."""
    generator = torch.Generator().manual_seed(1)
    one, other = (torch.randint(_LARGEST_FACTOR, (SIZE, SIZE), generator=generator) for _ in range(2))
    product = one.float().to(device) @ other.float().to(device)
    return bool(torch.equal(product.cpu().long(), one @ other))


if __name__ == "__main__":
    sys.exit(main())
