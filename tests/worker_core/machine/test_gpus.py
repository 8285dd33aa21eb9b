"""GPUs through the driver's library, with the driver's answers scripted (no GPU is needed)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from worker_core.machine.gpus import NvidiaGpus


def unsupported(*_: object) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that scripts answers of the driver."""

    def answer(**answers: Any) -> None:
        for name, value in answers.items():
            function = value if callable(value) else lambda *_, value=value: value
            monkeypatch.setattr(pynvml, name, function)

    answer(
        nvmlInit=None,
        nvmlDeviceGetCount=2,
        nvmlDeviceGetHandleByIndex=lambda index: f"handle {index}",
        nvmlDeviceGetMigMode=unsupported,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle[-1]}",
        nvmlDeviceGetName="NVIDIA Test",
        nvmlSystemGetDriverVersion="600.1",
        nvmlDeviceGetMemoryInfo=SimpleNamespace(total=100, used=40),
        nvmlDeviceGetUtilizationRates=SimpleNamespace(gpu=75),
        nvmlDeviceGetTemperature=61,
        nvmlDeviceGetPowerUsage=123_400,
    )
    return answer


def test_gpus_are_known_by_uuid_with_their_figures(driver: Callable[..., None]) -> None:
    gpus = NvidiaGpus()
    assert [gpu.uuid for gpu in gpus.facts()] == ["GPU-0", "GPU-1"]
    shown = gpus.load()[1]
    assert (shown.name, shown.memory_bytes, shown.memory_used_bytes) == ("NVIDIA Test", 100, 40)
    assert (shown.busy_pct, shown.temperature_c, shown.power_w) == (75.0, 61.0, 123.4)


def test_a_figure_that_a_gpu_does_not_have_is_absent_not_zero(driver: Callable[..., None]) -> None:
    driver(nvmlDeviceGetTemperature=unsupported, nvmlDeviceGetPowerUsage=unsupported)
    driver(nvmlDeviceGetUtilizationRates=unsupported, nvmlDeviceGetMemoryInfo=unsupported)
    shown = NvidiaGpus().load()[0]
    assert (shown.busy_pct, shown.temperature_c, shown.power_w) == (None, None, None)
    assert (shown.memory_bytes, shown.memory_used_bytes) == (0, None)


def test_one_gpu_that_fell_off_the_bus_does_not_hide_the_other(driver: Callable[..., None]) -> None:
    def handle(index: int) -> str:
        if index == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return f"handle {index}"

    driver(nvmlDeviceGetHandleByIndex=handle)
    assert [gpu.uuid for gpu in NvidiaGpus().facts()] == ["GPU-1"]


def test_a_driver_that_was_unloaded_leaves_no_gpus_and_no_error(driver: Callable[..., None]) -> None:
    gpus = NvidiaGpus()
    assert len(gpus.load()) == 2

    def gone(*_: object) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)

    driver(nvmlDeviceGetCount=gone)
    assert gpus.load() == ()
    driver(nvmlDeviceGetCount=1)
    assert gpus.load() == ()  # the driver is tried again later, not with every reading


def test_a_driver_that_goes_between_two_questions_is_no_error(driver: Callable[..., None]) -> None:
    def gone(*_: object) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)

    driver(nvmlDeviceGetMemoryInfo=gone, nvmlDeviceGetUUID=gone, nvmlDeviceGetName=gone)
    gpus = NvidiaGpus()
    assert [gpu.uuid for gpu in gpus.facts()] == ["", ""]
    assert gpus.load() == ()


def test_a_gpu_that_is_cut_into_instances_is_known_by_those(driver: Callable[..., None]) -> None:
    def instance(handle: str, index: int) -> str:
        if index > 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return f"{handle}, part {index}"

    driver(
        nvmlDeviceGetMigMode=lambda handle: [int(handle == "handle 1"), 0],
        nvmlDeviceGetMaxMigDeviceCount=7,
        nvmlDeviceGetMigDeviceHandleByIndex=instance,
        nvmlDeviceGetUUID=lambda handle: {"handle 0": "GPU-0"}.get(handle, f"MIG-{handle[-1]}"),
        nvmlDeviceGetUtilizationRates=unsupported,
    )
    assert [gpu.uuid for gpu in NvidiaGpus().load()] == ["GPU-0", "MIG-0", "MIG-1"]


def test_thirteen_gpus_keep_their_names_when_one_is_taken_out(driver: Callable[..., None]) -> None:
    driver(nvmlDeviceGetCount=13, nvmlDeviceGetUUID=lambda handle: f"GPU-{handle.split()[1]}")
    before = [gpu.uuid for gpu in NvidiaGpus().load()]
    # The driver counts on without a gap; only the unique ids tell which one is missing.
    driver(nvmlDeviceGetCount=12, nvmlDeviceGetHandleByIndex=lambda index: f"handle {index + (index >= 4)}")
    after = [gpu.uuid for gpu in NvidiaGpus().load()]
    assert [uuid for uuid in before if uuid not in after] == ["GPU-4"]
