"""Tells the redactor of this process which secrets its environment, and the home of a worker, hold."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from worker_core.machine.keystore import FileStore, Found
from worker_core.machine.paths import Paths
from worker_core.machine.redaction import KNOWN_SECRETS

_SECRET_VALUES = re.compile(r'"(?:d|token|secret|key|password)"\s*:\s*"([^"]+)"')
_MAX_FILE_BYTES = 64 * 1024
_OURS = ("STOKER_TOKEN",)


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


def learn_home(paths: Paths) -> None:
    """Know the secrets that lie in files of a worker's home, for a report on it."""
    found = FileStore(paths.credential_file).load()
    texts = [found.secret] if isinstance(found, Found) else []
    for file in (paths.control_file, paths.config / "login.json"):
        try:
            texts.append(file.read_bytes()[:_MAX_FILE_BYTES].decode(errors="replace"))
        except OSError:
            continue  # not there, or not ours to read: then nothing of it gets into the report either
    for text in texts:
        for value in _SECRET_VALUES.findall(text):
            KNOWN_SECRETS.add(value)
