"""The secrets of a site, and where they stand although they should not."""

import json
from collections.abc import Iterable
from pathlib import Path

from tests.faults.record import json_object

PASSWORD = "canary-password-of-the-owner"
ENVIRONMENT = {
    "STOKER_TOKEN": "canary-api-token-in-the-environment",
    "AWS_SECRET_ACCESS_KEY": "canary-cloud-key-in-the-environment",
}
"""What a person's shell may hold when the worker is started from it; a job must never see it."""

_SHORTEST = 8
_HOLD_THEIR_OWN = ("credential.json", "control.json", "admin.json", "coordinator-key.pem", "coordinator-key-next.pem")
"""Files that exist to hold a secret. They are private, and belong to one program."""


def secrets_of(folder: Path) -> set[str]:
    """Return what the private files of a site hold now: keys of workers and coordinator, tokens of control channels."""
    found: set[str] = set()
    for path in folder.glob("**/*"):
        try:
            content = path.read_text() if path.name in _HOLD_THEIR_OWN else ""
        except (OSError, UnicodeDecodeError):
            continue  # it was removed just now
        match path.name:
            case "credential.json":
                found.add(str(json_object(str(json_object(content.encode()).get("secret", "")).encode()).get("d", "")))
            case "control.json":
                found.add(str(json_object(content.encode()).get("token", "")))
            case "admin.json":
                found.add(str(json_object(content.encode()).get("key", "")))
            case "coordinator-key.pem" | "coordinator-key-next.pem":
                found.update(line for line in content.splitlines() if not line.startswith("-----"))
            case _:
                continue
    return {secret for secret in found if len(secret) >= _SHORTEST}


def secrets_in(folder: Path, secrets: Iterable[str]) -> list[str]:
    """Return the files below ``folder`` that hold one of the secrets and do not exist for that."""
    needles = [secret.encode() for secret in secrets if len(secret) >= _SHORTEST]
    needles += [json.dumps(needle.decode()).strip('"').encode() for needle in needles]
    found: set[str] = set()
    for path in folder.glob("**/*"):
        if not path.is_file() or path.is_symlink() or path.name in _HOLD_THEIR_OWN:
            continue
        content = path.read_bytes()
        if any(needle in content for needle in needles):
            found.add(str(path.relative_to(folder)))
    return sorted(found)
