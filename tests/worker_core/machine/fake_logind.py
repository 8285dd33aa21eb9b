"""A logind of a few lines on a private bus: gives delay locks out, announces sleep, sees locks given up."""

import os
import select
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jeepney import (
    DBusAddress,
    HeaderFields,
    MessageType,
    message_bus,
    new_method_return,
    new_signal,
)
from jeepney.io.blocking import Proxy, open_dbus_connection

NAME, PATH, INTERFACE = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
"""


@contextmanager
def private_bus(folder: Path) -> Generator[str]:
    """Run a message bus of its own and give its address."""
    config, path = folder / "bus.conf", folder / "bus"
    config.write_text(_CONFIG.format(path=path))
    command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as daemon:
        try:
            assert daemon.stdout is not None
            daemon.stdout.readline()
            yield f"unix:path={path}"
        finally:
            daemon.terminate()


class FakeLogind:
    """Serves in a thread until :meth:`close`."""

    def __init__(self, address: str) -> None:
        self.locks: list[int] = []
        """The reading ends of the locks that were given out; one reads as closed once its holder gave it up."""
        self.asked: list[tuple[Any, ...]] = []
        self._address = address
        self._line: Any = open_dbus_connection(bus=address, enable_fds=True)
        Proxy(message_bus, self._line).RequestName(NAME)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def announce(self, signal: str, begins: bool, line: Any = None) -> None:
        """Say ``PrepareForSleep`` or ``PrepareForShutdown`` to all."""
        emitter = DBusAddress(PATH, bus_name=None, interface=INTERFACE)
        (line or self._line).send(new_signal(emitter, signal, "b", (begins,)))

    def stranger_announces(self, signal: str) -> None:
        """Say the same as somebody else on the bus would."""
        with open_dbus_connection(bus=self._address) as line:
            self.announce(signal, True, line)

    def held(self) -> int:
        """How many locks are still held."""
        return sum(1 for lock in self.locks if not select.select([lock], [], [], 0)[0])

    def close(self) -> None:
        self._over.set()
        self._thread.join(10)
        self._line.close()
        for lock in self.locks:
            os.close(lock)

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                message = self._line.receive(timeout=0.05)
            except TimeoutError:
                continue
            if message.header.message_type is MessageType.method_call and (
                message.header.fields[HeaderFields.member] == "Inhibit"
            ):
                reading, writing = os.pipe()
                self.locks.append(reading)
                self.asked.append(message.body)
                self._line.send(new_method_return(message, "h", (writing,)))
                os.close(writing)
