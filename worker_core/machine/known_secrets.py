"""Tells the redactor of this process which secrets its environment holds."""

from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from worker_core.machine.redaction import KNOWN_SECRETS

_OURS = ("STOKER_TOKEN", "STOKER_PASSWORD")


def learn_environment(environment: Mapping[str, str], names: Iterable[str] = ()) -> None:
    """Know the values of variables that hold secrets: ours, those ``names``, and passwords of proxies."""
    for name in (*_OURS, *names):
        if value := environment.get(name):
            KNOWN_SECRETS.add(value)
    for name, value in environment.items():
        if name.lower().endswith("_proxy"):
            learn_url(value)


def learn_url(url: str) -> None:
    """Know the password of a URL, if it has one."""
    try:
        password = urlsplit(url if "://" in url else f"http://{url}").password
    except ValueError:
        return  # what is no URL has no password to know
    if password:
        KNOWN_SECRETS.add(password)
        KNOWN_SECRETS.add(unquote(password))
