"""Settings of one worker: a JSON file a person may edit. What is left out has its default, unknown keys stay."""

import json
from typing import Annotated, Any, Literal

import msgspec

from worker_core.journal.budget import OUTBOX_LIMIT_BYTES
from worker_core.link.faults import BadAddress
from worker_core.link.route import Route
from worker_core.machine.atomic_files import private_folder, write_file
from worker_core.machine.paths import Paths
from worker_core.wire.codec import BadMessage, Count, Message, decode, encode
from worker_core.wire.owner_rules import OwnerRules

GIB = 1 << 30


class BadSettings(Exception):
    """The settings file cannot be used; the text names the key and what is allowed."""


class Settings(Message):
    """All settings of the worker, with their defaults."""

    embedded_coordinator: bool = False
    """Whether this worker runs a coordinator on this computer."""
    embedded_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """Its port, chosen at the first start; 0 while it never ran."""
    embedded_account: str = ""
    """Whose account was made on it from here; asked for again, it is there already."""
    keep_blobs_bytes: Count = 20 * GIB
    """How much disk inputs and checkpoints of earlier jobs may keep."""
    keep_superseded_bytes: Count = 5 * GIB
    """How much disk the copies of attempts that lost their job to another may keep, for a day at most."""
    outbox_bytes: Count = OUTBOX_LIMIT_BYTES
    """How much may wait for the coordinator before lines are left out; never more than a twentieth of the free disk."""
    secret_env: tuple[str, ...] = ()
    """Environment variables of the worker whose values are secrets: they are taken out of all output and logs."""
    proxy: str = ""
    """Address of the proxy to the coordinator, with user:password@ if it asks for them; empty: as the system has it."""
    ca_file: str = ""
    """A PEM file with the certificates of one more authority to believe, such as that of an inspecting network."""
    allow_uncontained: bool = False
    """Whether jobs may run where nothing keeps them from the owner's files."""
    allow_network: bool = False
    """Whether a job that asks for the network gets it."""
    max_memory_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8
    """How much of the computer's memory a job may use."""
    max_processes: Annotated[int, msgspec.Meta(ge=16, le=1_000_000)] = 4096
    """How many processes a job may have."""
    readable_folders: tuple[str, ...] = ()
    """Folders that jobs may read beside the system and their Python, such as one with data sets."""
    min_free_bytes: Count = 2 * GIB
    """With less space than this no job is taken."""
    rules: OwnerRules = OwnerRules()
    """When this machine may train."""
    log_level: Literal["debug", "info", "warning"] = "info"

    def route(self) -> Route:
        """Return the way to the coordinator; raises :class:`BadSettings`."""
        try:
            return Route.checked(self.proxy, self.ca_file)
        except BadAddress as error:
            raise BadSettings(str(error)) from error


def read_settings(paths: Paths) -> Settings:
    """Return the settings; raises :class:`BadSettings`."""
    try:
        return decode(paths.settings_file.read_bytes(), Settings)
    except FileNotFoundError:
        return Settings()
    except (BadMessage, OSError) as error:
        raise BadSettings(f"{paths.settings_file}: {error}; correct the file, or delete it for the defaults") from error


def write_settings(paths: Paths, settings: Settings) -> None:
    """Write the settings; keys of the file that this version does not know stay in it."""
    private_folder(paths.config)
    kept = _raw(paths)
    kept.update(json.loads(encode(settings)))
    write_file(paths.settings_file, json.dumps(kept, indent=2).encode() + b"\n", private=True)


def _raw(paths: Paths) -> dict[str, Any]:
    try:
        return decode(paths.settings_file.read_bytes(), dict[str, Any])
    except (FileNotFoundError, BadMessage):
        return {}
