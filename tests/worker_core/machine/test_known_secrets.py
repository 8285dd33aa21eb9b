"""What a process learns of its secrets from its environment and from a worker's home."""

from pathlib import Path

import pytest

from worker_core.link.identity import WorkerKey
from worker_core.machine import known_secrets
from worker_core.machine.keystore import FileStore, Saved
from worker_core.machine.known_secrets import learn_environment, learn_home, learn_url
from worker_core.machine.paths import find_paths
from worker_core.machine.redaction import Redactor


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Redactor:
    made = Redactor()
    monkeypatch.setattr(known_secrets, "KNOWN_SECRETS", made)
    return made


def test_named_variables_our_token_and_passwords_of_proxies_are_secrets(secrets: Redactor) -> None:
    environment = {
        "STOKER_TOKEN": "token-of-ada",
        "MY_KEY": "value-of-the-key",
        "OTHER": "not-a-secret",
        "HTTPS_PROXY": "http://ada:pa%40ss%2Fword@proxy:3128",
        "all_proxy": "socks5://proxy-without-password",
    }
    learn_environment(environment, ["MY_KEY", "NOT_THERE"])
    said = "token-of-ada value-of-the-key not-a-secret pa@ss/word pa%40ss%2Fword proxy-without-password"
    expected = "[secret] [secret] not-a-secret [secret] [secret] proxy-without-password"
    assert secrets.redact(said) == expected


@pytest.mark.parametrize("url", ["", "proxy:3128", "http://[::1", "http://ada@proxy", "http://ada:@proxy"])
def test_an_address_without_a_password_teaches_nothing(secrets: Redactor, url: str) -> None:
    learn_url(url)
    assert secrets.longest == 0


def test_the_keys_and_tokens_in_a_home_are_secrets(secrets: Redactor, tmp_path: Path) -> None:
    paths = find_paths(str(tmp_path))
    key = WorkerKey.generate()
    assert FileStore(paths.credential_file).save(key.secret) == Saved()
    paths.control_file.write_text('{"v": 1, "token": "token-of-the-control-channel"}')
    learn_home(paths)
    assert "token-of" not in secrets.redact("token-of-the-control-channel")
    assert key.members.d not in secrets.redact(key.secret)


def test_a_home_that_is_empty_teaches_nothing(secrets: Redactor, tmp_path: Path) -> None:
    learn_home(find_paths(str(tmp_path / "nowhere")))
    assert secrets.longest == 0
