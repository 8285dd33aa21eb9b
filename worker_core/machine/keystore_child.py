"""Child process that talks to the operating system's keystore, because an unlock prompt may block for ever.

It reads one request as JSON on standard input and prints one answer as JSON: a secret never stands on a command line.
"""

import sys
from typing import Any

import keyring
from keyring.errors import InitError, KeyringError, KeyringLocked, NoKeyringError, PasswordDeleteError

from worker_core.machine.keystore_messages import Fault, KeystoreAnswer, KeystoreRequest
from worker_core.wire.codec import decode, encode


def main() -> int:
    """Serve one request; faults are answers, so the exit code is 0 for them too."""
    request = decode(sys.stdin.buffer.read(), KeystoreRequest)
    try:
        answer = _serve(request)
    except KeyringError as error:
        answer = KeystoreAnswer(fault=_fault_of(error), detail=str(error)[:300])
    sys.stdout.buffer.write(encode(answer))
    return 0


def _serve(request: KeystoreRequest) -> KeystoreAnswer:
    backend = _protected_backend()
    if request.do == "load":
        return KeystoreAnswer(secret=backend.get_password(request.service, request.entry))
    if request.do == "save":
        backend.set_password(request.service, request.entry, request.secret)
        # Some backends cut long secrets or keep nothing; better to know it before the pairing counts on it.
        if backend.get_password(request.service, request.entry) != request.secret:
            return KeystoreAnswer(fault="failed", detail="the keystore did not give back what was stored")
        return KeystoreAnswer()
    try:
        backend.delete_password(request.service, request.entry)
    except PasswordDeleteError:
        if backend.get_password(request.service, request.entry) is not None:
            raise
    return KeystoreAnswer()


def _protected_backend() -> Any:
    backend: Any = keyring.get_keyring()
    module = type(backend).__module__
    if module == "keyring.backends.fail":
        # Its own words advise to install a store without protection.
        raise NoKeyringError
    if module.startswith("keyrings.alt"):
        raise NoKeyringError("only a backend that stores passwords in plain text is installed")
    # The default on Windows roams to the person's other computers; this credential belongs to this one.
    if type(backend).__name__ == "WinVaultKeyring":
        backend.persist = "local machine"
    return backend


def _fault_of(error: KeyringError) -> Fault:
    if isinstance(error, KeyringLocked):
        return "locked"
    if isinstance(error, NoKeyringError | InitError):
        return "none"
    return "denied" if "denied" in str(error).lower() else "failed"


if __name__ == "__main__":
    sys.exit(main())
