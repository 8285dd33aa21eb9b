"""Whether a worker counts as healthy, which lets its authorization extend itself."""

from collections.abc import Sequence

from coordinator.accounts.presence import Contact
from coordinator.settings import Settings
from worker_core.wire.session import Health
from worker_core.wire.versions import is_older

FAILURES_IN_A_ROW = 3


def unhealthy_reasons(
    settings: Settings, contact: Contact | None, failures: Sequence[bool], health: Health, version: str, now: float
) -> list[str]:
    """Return in words everything that speaks against a worker; nothing means healthy."""
    reasons: list[str] = []
    if contact is None:
        reasons.append("it has not been heard of yet")
    elif (share := contact.share(now)) < settings.contact_share_min:
        reasons.append(f"it kept {share:.0%} of the expected contact, {settings.contact_share_min:.0%} are needed")
    if len(failures) >= FAILURES_IN_A_ROW and all(failures[:FAILURES_IN_A_ROW]):
        reasons.append(f"its last {FAILURES_IN_A_ROW} jobs failed by its fault")
    if health.disk_free_share < settings.disk_share_min:
        reasons.append(f"{health.disk_free_share:.0%} of its disk is free, {settings.disk_share_min:.0%} are needed")
    if is_older(version, settings.min_worker_version):
        reasons.append(f"its version {version} is older than {settings.min_worker_version}")
    return reasons
