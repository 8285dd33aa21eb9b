"""`stoker doctor --retest-gpu`: the running worker tests its GPUs now, those in quarantine too."""

from collections.abc import Iterator

from app.cli.doctor_finding import Finding
from app.cli.worker_commands import core
from worker_core.control.messages import GpusTested
from worker_core.machine.paths import Paths
from worker_core.wire.codec import convert

_LONGEST_S = 15 * 60.0
"""A GPU that hangs is given a minute; a workstation has few, one after the other."""


def retest_gpus(paths: Paths) -> list[Finding]:
    """Return what the test of each GPU found; raises :class:`app.cli.errors.CliError` where none can be made."""
    with core(paths) as client:
        tested = convert(client.request("retest-gpu", timeout_s=_LONGEST_S), GpusTested)
    return list(_findings(tested))


def _findings(tested: GpusTested) -> Iterator[Finding]:
    if not tested.gpus:
        yield Finding(name="gpu", state="warning", text="This worker sees no GPU to test; jobs run on the processor.")
    for gpu in tested.gpus:
        if gpu.ok:
            yield Finding(name="gpu", state="ok", text=f"{gpu.name} ({gpu.uuid}) passed its test and gets jobs.")
        else:
            text = f"{gpu.name} ({gpu.uuid}) failed its test: {gpu.text}"
            yield Finding(name="gpu", state="problem", text=text, cure=gpu.cure)
