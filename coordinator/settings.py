"""What a host may set in ``<data>/coordinator.toml``: every interval and limit, with its default.

Keys at the top belong to the coordinator; the table ``[worker]`` holds what it tells its workers.
"""

import math
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from coordinator.errors import HostError
from worker_core.wire.codec import BadMessage, Message, convert
from worker_core.wire.session import Parameters

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Limit = Annotated[int, msgspec.Meta(ge=1)]

FILE_NAME = "coordinator.toml"


class BadSettings(HostError):
    """The settings file cannot be used; the text names the file, the key and the cure."""


class Settings(Message, forbid_unknown_fields=True):
    """All settings of a coordinator. Times are in seconds, sizes in bytes."""

    worker: Parameters = Parameters()
    """What workers follow; sent with each new connection."""
    min_worker_version: str = "0.1.0"

    token_ttl_s: Seconds = 600.0
    token_overlap_s: Seconds = 60.0
    nonce_s: Seconds = 300.0
    offer_accept_s: Seconds = 30.0
    lease_slack_s: Annotated[float, msgspec.Meta(ge=0)] = 15.0
    lost_not_before_s: Annotated[float, msgspec.Meta(ge=0)] = 60.0
    cancel_forced_s: Seconds = 120.0
    expired_job_s: Seconds = 12.25 * 3600
    """How long a job may run on after its worker's authorization ran out; workers stop it by themselves after 12 h."""
    outdated_job_s: Seconds = 7 * 86400.0
    """How long a worker below ``min_worker_version`` may see a running job through."""
    reaper_s: Seconds = 5.0
    presence_flush_s: Seconds = 1.0
    housekeeping_s: Seconds = 60.0

    conflict_knock_s: Seconds = 300.0
    audit_keep_s: Seconds = 400 * 86400.0

    pairing_s: Seconds = 900.0
    pairing_interval_s: Seconds = 5.0
    pairing_repeat_s: Seconds = 600.0
    """How long an approval may be fetched again, until the first connection."""
    pairing_lookups: Limit = 10
    pending_per_email_network: Limit = 3
    pairings_per_email_network_hour: Limit = 10
    pairings_per_ip_hour: Limit = 30
    wrong_codes: Limit = 5
    wrong_codes_window_s: Seconds = 900.0
    wrong_codes_lock_s: Seconds = 900.0
    wrong_codes_per_account_hour: Limit = 20
    wrong_codes_per_ip_hour: Limit = 60
    wrong_codes_global_hour: Limit = 1000

    logins_per_email: Limit = 10
    logins_per_ip: Limit = 60
    logins_window_s: Seconds = 900.0
    login_s: Seconds = 14 * 86400.0
    step_up_s: Seconds = 300.0
    idempotency_keep_s: Seconds = 86400.0

    hard_cap_s: Seconds = 180 * 86400.0
    extend_min_interval_s: Seconds = 3600.0
    contact_share_min: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.9
    disk_share_min: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.05

    body_max_bytes: Limit = 8 << 20
    body_deadline_s: Seconds = 30.0
    chunk_bytes: Limit = 8 << 20
    upload_keep_s: Seconds = 7 * 86400.0
    blob_gc_s: Seconds = 3600.0
    superseded_keep_s: Seconds = 86400.0
    account_quota_bytes: Limit = 100 << 30
    log_keep_s: Seconds = 90 * 86400.0
    """How long after its end the output of an attempt is kept; its metrics and files stay."""

    stream_ping_s: Seconds = 15.0
    stream_queue: Limit = 256
    changes_keep: Limit = 10_000

    stop_s: Seconds = 5.0
    clock_file: str | None = None
    """A file that moves the clock, for tests: ``{"offset_s": 3600}``."""


def load_settings(data: Path) -> Settings:
    """Read the settings of a data folder; a missing file means defaults. Raises :class:`BadSettings`."""
    path = data / FILE_NAME
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"cannot read {path}: {error}") from error
    try:
        settings = convert(tomllib.loads(text), Settings)
        _check_numbers(settings, "")
        _check_numbers(settings.worker, "worker.")
    except (tomllib.TOMLDecodeError, BadMessage) as error:
        raise BadSettings(f"{path} is not valid: {error}. Correct that line, or remove it for the default.") from error
    return settings


def _check_numbers(settings: Settings | Parameters, table: str) -> None:
    """Raise BadMessage for what TOML may write but nothing can follow: intervals that are no number, or infinite."""
    for name, value in msgspec.structs.asdict(settings).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise BadMessage(f"Expected a finite number, got `{value}` - at `$.{table}{name}`")
