"""What a job asks of GPUs, read from the text of its spec, whatever its kind."""

from dataclasses import dataclass
from typing import Literal

from worker_core.wire.codec import BadMessage, Message, decode

_GIB = 1 << 30


@dataclass(frozen=True)
class GpuNeed:
    """How many GPUs a job is given. Without ``must`` it runs on the processor where there is none."""

    count: int = 1
    must: bool = False
    min_vram_bytes: int = 0


class _Gpu(Message):
    count: int = 0
    min_vram_gb: float = 0.0


class _Target(Message):
    gpu: _Gpu = _Gpu()


class _Training(Message):
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"


class _Spec(Message):
    target: _Target = _Target()
    training: _Training = _Training()


def gpu_need(spec: str) -> GpuNeed:
    """Return what the spec asks for; one that says nothing of it may use one GPU."""
    try:
        asked = decode(spec, _Spec)
    except BadMessage:
        return GpuNeed()  # the job itself will say what is wrong with its spec
    gpu = asked.target.gpu
    if gpu.count == 0 and asked.training.device == "cpu":
        return GpuNeed(count=0)
    must = gpu.count > 0 or asked.training.device == "cuda"
    return GpuNeed(max(1, gpu.count), must, int(gpu.min_vram_gb * _GIB))
