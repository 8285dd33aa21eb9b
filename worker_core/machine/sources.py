"""Where the worker reads time, GPUs and disk space: from the machine, or from a script.

``STOKER_SCRIPTED_SOURCES`` names a JSON file (:class:`Script`) that overrides single readings. It is read again when
it changes, so that a test, or a person who tries things out, can move the clock or fill the disk of a running worker.
"""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from worker_core.machine.clocks import Clock, SystemClock
from worker_core.machine.gpus import NvidiaGpus
from worker_core.machine.host import DiskSpace, disk_space
from worker_core.machine.keep_awake import KeepAwake, system_awake
from worker_core.machine.machine_id import machine_id
from worker_core.machine.owner_reading import OwnerReading, OwnerSource, SystemOwner
from worker_core.machine.patient_gpus import PatientGpus
from worker_core.machine.power import NoPower, PowerSource, PowerState, ScriptedPower
from worker_core.wire.codec import BadMessage, Count, Message, decode
from worker_core.wire.owner_rules import OwnerRules
from worker_core.wire.pairing import Gpu
from worker_core.wire.probe import ProbeResult
from worker_core.wire.status import GpuShown

log = logging.getLogger(__name__)

SETTING = "STOKER_SCRIPTED_SOURCES"


class GpuSource(Protocol):
    """GPUs of the machine."""

    def facts(self) -> tuple[Gpu, ...]: ...

    def load(self) -> tuple[GpuShown, ...]: ...

    @property
    def silent(self) -> bool:
        """Whether the driver does not answer; what is told then is what it said last."""
        ...

    def scripted_probe(self, uuid: str) -> ProbeResult | None:
        """Return what a test of this GPU shall find; None means: test it."""
        ...


class DiskSource(Protocol):
    """Space on the volumes of the machine."""

    def space(self, folder: Path) -> DiskSpace: ...


class Sources:
    """The sources of one worker."""

    def __init__(
        self,
        clock: Clock,
        gpus: GpuSource,
        disk: DiskSource,
        power: PowerSource,
        computer: Callable[[], str] = machine_id,
        owner: OwnerSource | None = None,
        awake: KeepAwake | None = None,
    ) -> None:
        self.owner: OwnerSource = owner or SystemOwner()
        self.awake: KeepAwake = awake or system_awake()
        self.computer = computer
        """Which computer this is; nothing where the system does not say."""
        self.clock = clock
        self.gpus = gpus
        self.disk = disk
        self.power = power


class Script(Message):
    """Content of the scripted file; what is left out is read from the machine."""

    clock_offset_s: float = 0.0
    """Added to the clock that counts sleep, as if the machine had slept so long."""
    wall_offset_s: float = 0.0
    gpus: tuple[GpuShown, ...] | None = None
    gpus_silent: bool = False
    """As if the driver of the GPUs hung."""
    disk_free_bytes: Count | None = None
    disk_total_bytes: Count | None = None
    probes: dict[str, ProbeResult] | None = None
    """What a test of a GPU finds, by UUID; a device that is not named here passes."""
    machine_id: str | None = None
    """Which computer this is, as if the home had been copied to another."""
    owner: OwnerReading | None = None
    """What the owner's rules read; all of them."""
    power: PowerState | None = None
    """Announces sleep, wake and the machine's end in place of the operating system."""


class ScriptFile:
    """Reads the script again whenever the file changes.

    A script that is just being written, or was taken away, changes nothing: what it said last goes on to hold.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._script = Script()

    def read(self) -> Script:
        """Return what the file says now.

        Only the first reading raises: :class:`worker_core.wire.codec.BadMessage` for nonsense, OSError without a file.
        """
        first = self._stamp is None
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if stamp != self._stamp:
                content = self._path.read_bytes()
                self._script, self._stamp = decode(content, Script), stamp
        except (BadMessage, OSError) as error:
            if first:
                raise
            log.debug("%s holds no script now (%s); the last one stays in force", self._path, error)
        return self._script


class ScriptedClock:
    """The machine's clocks, moved by what the script says."""

    def __init__(self, file: ScriptFile) -> None:
        self._file = file
        self._system = SystemClock()

    def now(self) -> float:
        return self._system.now() + self._file.read().clock_offset_s

    def awake(self) -> float:
        return self._system.awake()

    def wall(self) -> float:
        return self._system.wall() + self._file.read().wall_offset_s


class ScriptedGpus:
    """The script's GPUs, or the machine's where it names none."""

    def __init__(self, file: ScriptFile) -> None:
        self._file = file
        self._real = PatientGpus(NvidiaGpus())

    def facts(self) -> tuple[Gpu, ...]:
        scripted = self._file.read().gpus
        if scripted is None:
            return self._real.facts()
        return tuple(
            Gpu(uuid=gpu.uuid, name=gpu.name, memory_bytes=gpu.memory_bytes, driver=gpu.driver) for gpu in scripted
        )

    def load(self) -> tuple[GpuShown, ...]:
        scripted = self._file.read().gpus
        return self._real.load() if scripted is None else scripted

    @property
    def silent(self) -> bool:
        return self._file.read().gpus_silent or self._real.silent

    def scripted_probe(self, uuid: str) -> ProbeResult | None:
        script = self._file.read()
        if script.probes is None and script.gpus is None:
            return None
        return (script.probes or {}).get(uuid, ProbeResult(ok=True))


class SystemDisk:
    """The machine's volumes."""

    def space(self, folder: Path) -> DiskSpace:
        return disk_space(folder)


class ScriptedDisk:
    """The machine's volumes, with the script's figures where it has any."""

    def __init__(self, file: ScriptFile) -> None:
        self._file = file

    def space(self, folder: Path) -> DiskSpace:
        script, real = self._file.read(), disk_space(folder)
        free, total = script.disk_free_bytes, script.disk_total_bytes
        return DiskSpace(
            free_bytes=real.free_bytes if free is None else free,
            total_bytes=real.total_bytes if total is None else total,
        )


class ScriptedOwner:
    """The script's readings for the owner's rules, or the machine's where it has none."""

    def __init__(self, file: ScriptFile) -> None:
        self._file = file
        self._real = SystemOwner()

    def read(self, rules: OwnerRules, gpus: tuple[GpuShown, ...]) -> OwnerReading:
        scripted = self._file.read().owner
        return self._real.read(rules, gpus) if scripted is None else scripted


def find_sources() -> Sources:
    """Return the sources that the environment chooses."""
    chosen = os.environ.get(SETTING)
    if not chosen:
        return Sources(SystemClock(), PatientGpus(NvidiaGpus()), SystemDisk(), _system_power())
    file = ScriptFile(Path(chosen))
    power = ScriptedPower(lambda: file.read().power or "awake")

    def computer() -> str:
        scripted = file.read().machine_id
        return machine_id() if scripted is None else scripted

    return Sources(ScriptedClock(file), ScriptedGpus(file), ScriptedDisk(file), power, computer, ScriptedOwner(file))


def _system_power() -> PowerSource:
    """Return the source of this operating system."""
    if sys.platform == "linux":
        from worker_core.machine.power_logind import LogindPower

        return LogindPower()
    if sys.platform == "win32":
        from worker_core.machine.power_windows import WindowsPower

        return WindowsPower()
    if sys.platform == "darwin":
        from worker_core.machine.power_macos import MacPower

        return MacPower()
    return NoPower()
