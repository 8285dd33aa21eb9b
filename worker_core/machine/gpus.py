"""NVIDIA GPUs by the driver's own library: who they are, by UUID, and what they do now."""

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from worker_core.wire.pairing import Gpu
from worker_core.wire.status import GpuShown

T = TypeVar("T")

_RETRY_DRIVER_S = 30.0


class NvidiaGpus:
    """Reads all GPUs of the machine; without a driver there are none, and a figure a GPU lacks stays None.

    One question at a time, as :class:`worker_core.machine.patient_gpus.PatientGpus` asks.
    """

    def __init__(self) -> None:
        self._nvml: Any = None
        """The driver's library, once it was asked for; it stays when the driver goes."""
        self._is_open = False
        self._next_try = 0.0

    def facts(self) -> tuple[Gpu, ...]:
        """Return what identifies each GPU."""
        return tuple(self._fact(handle) for handle in self._handles())

    def load(self) -> tuple[GpuShown, ...]:
        """Return the present figures of each GPU."""
        return tuple(self._figures(handle) for handle in self._handles())

    def _handles(self) -> list[Any]:
        if not self._open_driver():
            return []
        nvml = self._nvml
        count = self._ask(nvml.nvmlDeviceGetCount) or 0
        handles = [self._ask(lambda index=index: nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
        return [part for handle in handles if handle is not None for part in self._parts(handle)]

    def _parts(self, handle: Any) -> list[Any]:
        """Return a GPU that is cut into instances (MIG) as those instances, which is how programs get it."""
        nvml = self._nvml
        mode = self._ask(lambda: nvml.nvmlDeviceGetMigMode(handle))
        if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return [handle]
        most = self._ask(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0
        parts = [
            self._ask(lambda index=index: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
            for index in range(most)
        ]
        return [part for part in parts if part is not None]

    def _open_driver(self) -> bool:
        if not self._is_open and time.monotonic() >= self._next_try:
            self._next_try = time.monotonic() + _RETRY_DRIVER_S
            self._nvml = import_module("pynvml")
            try:
                self._nvml.nvmlInit()
            except self._nvml.NVMLError:
                return False
            self._is_open = True
        return self._is_open

    def _ask(self, question: Callable[[], T]) -> T | None:
        """Return the driver's answer, or None where it has none; a driver that went away is opened anew later."""
        nvml = self._nvml
        try:
            return question()
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
                self._is_open = False
            return None

    def _fact(self, handle: Any) -> Gpu:
        nvml = self._nvml
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        return Gpu(
            uuid=self._ask(lambda: nvml.nvmlDeviceGetUUID(handle)) or "",
            name=self._ask(lambda: nvml.nvmlDeviceGetName(handle)) or "",
            memory_bytes=memory.total if memory else 0,
            driver=self._ask(nvml.nvmlSystemGetDriverVersion) or "",
        )

    def _figures(self, handle: Any) -> GpuShown:
        nvml, fact = self._nvml, self._fact(handle)
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        busy = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        warm = self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        milliwatts = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        return GpuShown(
            uuid=fact.uuid,
            name=fact.name,
            memory_bytes=fact.memory_bytes,
            memory_used_bytes=memory.used if memory else None,
            busy_pct=float(busy.gpu) if busy else None,
            temperature_c=None if warm is None else float(warm),
            power_w=None if milliwatts is None else milliwatts / 1000,
            driver=fact.driver,
        )
