"""The pairing window's words: what is wrong with the form, what a failure means, how the code is read."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from worker_core.control.messages import ErrorBody, PairOutcome

MIN_PASSWORD_LENGTH = 8
MAX_NAME_LENGTH = 64
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class PairingForm:
    """What a person typed."""

    here: bool
    """Use a coordinator on this computer instead of a distant one."""
    coordinator: str = ""
    email: str = ""
    password: str = ""
    name: str = ""
    key_in_file: bool = False
    """Keep the worker's key in a private file, not in the system's key store."""


@dataclass(frozen=True)
class FormError:
    """The field at fault and what to do about it."""

    field: str
    text: str


def check_form(form: PairingForm) -> FormError | None:
    """Return the first thing that is wrong with the form, or None."""
    if not form.here and (error := _check_coordinator(form.coordinator)):
        return FormError("coordinator", error)
    if not _is_email(form.email):
        return FormError("email", "Enter the e-mail address of your account, such as you@example.org.")
    if form.here and len(form.password) < MIN_PASSWORD_LENGTH:
        return FormError("password", f"Choose a password of at least {MIN_PASSWORD_LENGTH} characters.")
    if not form.name.strip() or len(form.name.strip()) > MAX_NAME_LENGTH:
        return FormError("name", f"Give this computer a name of 1 to {MAX_NAME_LENGTH} characters.")
    return None


def coordinator_address(typed: str) -> str:
    """Return a typed address as a URL: the scheme may be left out, a closing slash does not matter."""
    text = typed.strip()
    if "://" in text:
        return text if text.endswith("://") else text.rstrip("/")
    text = text.rstrip("/")
    if not text:
        return text
    host = urlsplit(f"//{text}").hostname or ""
    return f"{'http' if host in _LOOPBACK else 'https'}://{text}"


def _check_coordinator(typed: str) -> str | None:
    address = coordinator_address(typed)
    if not address:
        return "Enter the coordinator's address, such as https://train.example.org."
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return f"{address} is not an address. It looks like https://train.example.org."
    if parts.scheme not in ("http", "https") or not host or " " in address:
        return f"{address} is not an address. It looks like https://train.example.org."
    if parts.username or parts.password:
        return "Leave user name and password out of the address."
    if parts.scheme == "http" and host not in _LOOPBACK:
        return f"Use https://{parts.netloc}. Plain http is allowed only for a coordinator on this computer."
    return None


def _is_email(text: str) -> bool:
    name, at, domain = text.strip().partition("@")
    return bool(name and at and domain) and "@" not in domain and not any(letter.isspace() for letter in text.strip())


def failure_title(error: ErrorBody) -> str:
    """Return the headline of a failed request to pair; ``error.text`` is the sentence under it."""
    titles = {
        "unreachable": "The coordinator could not be reached",
        "refused": "The coordinator refused",
        "busy": "The worker is busy",
        "wrong-state": "This worker cannot be paired now",
    }
    return titles.get(error.code, "Pairing did not start")


def outcome_words(outcome: PairOutcome) -> tuple[str, str]:
    """Return headline and sentence of a decided pairing."""
    name = outcome.worker_name or "This computer"
    owner = f" with the account {outcome.account}" if outcome.account else ""
    words: dict[str, tuple[str, str]] = {
        "approved": ("Paired", f"{name} is paired{owner} and takes jobs from now on."),
        "denied": ("Not approved", "Someone with access to the account denied this pairing."),
        "expired": ("The code has expired", "A code is good for a short time only. Ask for a new one."),
        "canceled": ("Pairing canceled", "Nothing was changed."),
        "failed": ("Pairing failed", "Try again with a new code."),
    }
    headline, sentence = words[outcome.state]
    return headline, outcome.detail if outcome.detail and outcome.state != "approved" else sentence


def spelled_code(code: str) -> str:
    """Return a code letter by letter, for a screen reader."""
    groups = [" ".join(group) for group in code.split("-")]
    return ", ".join(groups)
