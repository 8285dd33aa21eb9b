"""An autostart entry that is a file: read with a bound, written whole or not at all."""

from abc import ABC, abstractmethod
from pathlib import Path

from worker_core.machine.atomic_files import write_file

MAX_BYTES = 64 * 1024


class EntryFile(ABC):
    """The file; what stands in it is each system's own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> str | None:
        """Return its text."""
        try:
            with self.path.open("rb") as file:
                return file.read(MAX_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            return None

    @abstractmethod
    def expected(self) -> str:
        """Return the text for the program that runs now."""

    def write(self) -> None:
        """Write it whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.path, self.expected().encode())

    def remove(self) -> None:
        """Take it away."""
        self.path.unlink(missing_ok=True)
