"""This computer as the core looks at it: load, disk and devices, read seldom and remembered between."""

from collections.abc import Callable

from worker_core.core.job_safety import JobSafety
from worker_core.core.settings import Settings
from worker_core.jobs.runtime import Runtime, RuntimeMissing
from worker_core.machine.host import DiskSpace, read_host, read_load
from worker_core.machine.paths import Paths
from worker_core.machine.sources import Sources
from worker_core.wire.codec import decode, encode
from worker_core.wire.session import Health
from worker_core.wire.status import DeviceLoad, GpuShown
from worker_core.wire.vocabulary import Reason


class MachineView:
    """The newest readings."""

    def __init__(
        self, sources: Sources, paths: Paths, settings: Settings, resolve_runtime: Callable[[], Runtime]
    ) -> None:
        self.safety = JobSafety(paths, settings)
        self.gpus: tuple[GpuShown, ...] = ()
        self.load = DeviceLoad()
        self._sources = sources
        self._paths = paths
        self._settings = settings
        self._resolve_runtime = resolve_runtime
        self._disk = DiskSpace(free_bytes=0, total_bytes=0)
        self.refresh()

    @property
    def disk(self) -> DiskSpace:
        """Space on the volume that holds the worker's data."""
        return self._disk

    def refresh(self) -> None:
        """Read everything again."""
        self.gpus = self._sources.gpus.load()
        self._disk = self._sources.disk.space(self._paths.data)
        load = read_load()
        self.load = DeviceLoad(
            device="cuda" if self.gpus else "cpu",
            cpu_pct=load.cpu_pct,
            ram_used_bytes=load.ram_used_bytes,
            ram_total_bytes=load.ram_total_bytes,
        )

    def obstacle(self) -> tuple[Reason, str] | None:
        """Return why this machine should take no job now, as a reason code and a sentence."""
        if self._disk.free_bytes < self._settings.min_free_bytes:
            free_gib, needed_gib = self._disk.free_bytes / (1 << 30), self._settings.min_free_bytes / (1 << 30)
            text = f"{free_gib:.1f} GiB of disk are free, {needed_gib:.1f} are needed to take a job. Free some space."
            return "disk-full", text
        if self._sources.gpus.silent:
            return "gpu-silent", "The GPU's driver does not answer. Restart the computer if it goes on."
        try:
            self._resolve_runtime()
        except RuntimeMissing as error:
            return "device-missing", str(error)
        return self.safety.obstacle()

    def health(self, failures_in_a_row: int, loop_lag_s: float, degraded: tuple[Reason, ...]) -> Health:
        """Return the worker's own evidence."""
        return Health(
            disk_free_share=self._disk.free_share,
            disk_free_bytes=self._disk.free_bytes,
            failures_in_a_row=failures_in_a_row,
            loop_lag_s=loop_lag_s,
            degraded=degraded,
        )

    def capabilities(self, kinds: tuple[str, ...], credential_store: str) -> dict[str, object]:
        """Return what the coordinator should know of this machine."""
        host = read_host(self._sources.gpus.facts())
        return {
            "host": decode(encode(host), dict[str, object]),
            "kinds": list(kinds),
            "credential_store": credential_store,
            "network": self._settings.allow_network,
        }
