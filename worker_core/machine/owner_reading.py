"""What the owner's rules look at, as one reading of this machine."""

import logging
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

import psutil

from worker_core.machine.idle import Idle, IdleClock
from worker_core.wire.codec import Message
from worker_core.wire.owner_rules import OwnerRules
from worker_core.wire.status import GpuShown

log = logging.getLogger(__name__)

_ANSWER_S = 2.0
_METERED_YES = (1, 3)
"""NM_METERED_YES and NM_METERED_GUESS_YES of https://networkmanager.dev/docs/api/latest/nm-dbus-types.html."""


class OwnerReading(Message):
    """Each value is None where the machine does not tell it."""

    idle_s: float | None = None
    """Seconds since somebody used keyboard or mouse, here or from afar."""
    idle_source: str = ""
    on_battery: bool | None = None
    hottest_gpu_c: float | None = None
    programs: tuple[str, ...] | None = None
    """Names of running programs; None while no rule asks for them."""
    metered: bool | None = None


class OwnerSource(Protocol):
    """Where the readings come from."""

    def read(self, rules: OwnerRules, gpus: tuple[GpuShown, ...]) -> OwnerReading:
        """Return what the rules need; what none of them needs may be left out."""
        ...


class SystemOwner:
    """This machine. A reading may take a moment: it is taken in a thread."""

    def __init__(self) -> None:
        self._idle = IdleClock()

    def read(self, rules: OwnerRules, gpus: tuple[GpuShown, ...]) -> OwnerReading:
        """Read what the rules ask for."""
        idle = self._idle.read() if rules.idle_minutes else Idle()
        hot = [gpu.temperature_c for gpu in gpus if gpu.temperature_c is not None]
        return OwnerReading(
            idle_s=idle.seconds,
            idle_source=idle.source,
            on_battery=_on_battery(),
            hottest_gpu_c=max(hot, default=None),
            programs=_programs() if rules.programs else None,
            metered=_metered() if rules.pause_on_metered else None,
        )


def _on_battery() -> bool | None:
    battery: Any = psutil.sensors_battery()  # the plug of one may be unknown, which its types do not say
    return None if battery is None or battery.power_plugged is None else not battery.power_plugged


def _programs() -> tuple[str, ...]:
    """Return the names of all programs but this one and what it started: a job does not stop itself."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for process in psutil.process_iter(["ppid", "name"]):
        parents[process.pid] = process.info["ppid"] or 0
        names[process.pid] = process.info["name"] or ""
    return tuple({name for pid, name in names.items() if name and not _is_ours(pid, parents)})


def _is_ours(pid: int, parents: Mapping[int, int]) -> bool:
    seen = set[int]()
    while pid not in seen and pid in parents:
        if pid == os.getpid():
            return True
        seen.add(pid)  # ids are used again, so what was read one by one may lead in a circle
        pid = parents[pid]
    return False


def _metered() -> bool | None:
    """Return what NetworkManager says of the connection in use; None where there is none."""
    if sys.platform != "linux":
        return None
    jeepney, blocking = import_module("jeepney"), import_module("jeepney.io.blocking")
    try:
        with blocking.open_dbus_connection(bus="SYSTEM") as line:
            name, path = "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager"
            where = jeepney.DBusAddress(path, bus_name=name, interface=name)
            answer = line.send_and_get_reply(jeepney.Properties(where).get("Metered"), timeout=_ANSWER_S)
            if answer.header.message_type is jeepney.MessageType.error:
                return None
            return answer.body[0][1] in _METERED_YES
    except Exception as error:  # no bus, nobody there, or bytes that are no D-Bus message
        log.debug("nothing tells here whether the network is metered: %s", error)
        return None
