"""Guessing pairing codes: thousands of wrong codes by many people from many addresses against a real coordinator.

While the guessers are patient (the coordinator's clock is moved on whenever all are locked), codes of theirs wait all
the time. Targets: no hit, everybody locked, an alert in the history, and the locks still there after a restart.
"""

import json
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from sqlalchemy import Connection

from app.cli.local_stack import LocalCoordinator
from bench._stack import BenchFailed, parser, report
from coordinator.accounts.people import SCOPES, hash_password, insert_account, insert_token
from coordinator.storage.data_folder import DATABASE_NAME
from coordinator.storage.database import Database
from worker_core.link.identity import WorkerKey
from worker_core.link.proof import ProofMaker
from worker_core.wire.codec import encode
from worker_core.wire.pairing import USER_CODE_ALPHABET, USER_CODE_LENGTH, Host, PairingRequest

PEOPLE = 60
ADDRESSES = 24
PATIENCE_S = 905.0
"""A little longer than a lock."""
TIMEOUT_S = 60.0
_NOT_FOUND, _LIMITED, _FOUND = 404, 429, 200
LOOKUP = "/v1/console/pairings/lookup"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--tries", type=int, default=10_000, help="wrong codes to type")
    options.add_argument("--seed", type=int, default=1, help="of the codes typed")
    asked = options.parse_args(argv)
    if sys.platform != "linux":
        raise BenchFailed("this benchmark speaks from many loopback addresses, which only Linux has without setting up")
    folder = Path(tempfile.mkdtemp(prefix="stoker-codes-"))
    try:
        figures = _Attack(folder, asked.seed).run(asked.tries)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    good = figures["hits"] == 0 and figures["alerts"] and figures["locked_people"] and figures["locked_after_restart"]
    report({**figures, "within_targets": bool(good)}, json=asked.json)
    return 0 if good else 1


@dataclass
class _Guesser:
    """A person with a log-in of their own who types codes from some address."""

    email: str
    token: str
    locked: bool = False


@dataclass
class _Attack:
    folder: Path
    seed: int
    clock_s: float = 0.0
    seen: Counter[int] = field(default_factory=Counter[int])
    started: int = 0

    def run(self, tries: int) -> dict[str, object]:
        """Type wrong codes, restart the coordinator, look at the history."""
        guessers = self._make_people()
        chance = random.Random(self.seed)
        coordinator = self._start()
        began, before, locked = time.monotonic(), 0, set[str]()
        try:
            with _Sources(coordinator.url) as sources:
                self._start_pairings(sources, guessers)
                for number in range(tries):
                    guesser = guessers[number % len(guessers)]
                    code = "".join(chance.choices(USER_CODE_ALPHABET, k=USER_CODE_LENGTH))
                    answer = sources.of(number).post(LOOKUP, guesser.token, {"user_code": code})
                    self.seen[answer] += 1
                    guesser.locked = answer == _LIMITED
                    if guesser.locked:
                        locked.add(guesser.email)
                    if all(one.locked for one in guessers):
                        self._wait(sources, guessers)
                alerts = sources.of(0).history(guessers[0].token)
                took_s = time.monotonic() - began
                for _ in range(10):
                    before = sources.of(0).post(LOOKUP, guessers[0].token, {"user_code": "BCDFGHJK"})
            port = coordinator.port
            coordinator.end()
            coordinator = LocalCoordinator(self.folder, port=port)
            with _Sources(coordinator.url) as sources:
                after = sources.of(0).post(LOOKUP, guessers[0].token, {"user_code": "BCDFGHJK"})
        finally:
            coordinator.end()
        return {
            "bench": "codes",
            "tries": tries,
            "people": PEOPLE,
            "addresses": ADDRESSES,
            "hours": round(self.clock_s / 3600, 1),
            "pairings_started": self.started,
            "looked_at": self.seen[_NOT_FOUND],
            "refused": self.seen[_LIMITED],
            "hits": self.seen[_FOUND],
            "alerts": alerts,
            "locked_people": len(locked),
            "locked_after_restart": before == after == _LIMITED,
            "tries_per_s": round(tries / took_s),
        }

    def _start(self) -> LocalCoordinator:
        self._set_clock()
        return LocalCoordinator(self.folder, f"clock_file = {json.dumps(str(self._clock_file))}\n")

    def _make_people(self) -> list[_Guesser]:
        data = self.folder / "coordinator"
        data.mkdir(mode=0o700)
        database, hashed, now = Database.open(data / DATABASE_NAME), hash_password(secrets.token_hex(16)), time.time()

        def write(conn: Connection) -> list[_Guesser]:
            made: list[_Guesser] = []
            for number in range(PEOPLE):
                email = f"guesser-{number}@example.org"
                insert_account(conn, email, hashed, now)
                made.append(_Guesser(email, insert_token(conn, email, "bench", SCOPES, now)))
            return made

        try:
            return database.write_sync(write)
        finally:
            database.close()

    def _wait(self, sources: "_Sources", guessers: list[_Guesser]) -> None:
        """Let the locks pass, and see to it that codes wait again that could be hit."""
        self.clock_s += PATIENCE_S
        self._set_clock()
        for guesser in guessers:
            guesser.locked = False
        self._start_pairings(sources, guessers)

    def _start_pairings(self, sources: "_Sources", guessers: list[_Guesser]) -> None:
        for number, guesser in enumerate(guessers):
            self.started += sources.of(number).start_pairing(guesser.email)

    def _set_clock(self) -> None:
        fresh = self._clock_file.with_suffix(".new")
        fresh.write_text(json.dumps({"offset_s": self.clock_s}))
        fresh.replace(self._clock_file)

    @property
    def _clock_file(self) -> Path:
        return self.folder / "clock.json"


class _Sources:
    """One client for each address."""

    def __init__(self, url: str) -> None:
        self._all = [_Source(url, f"127.0.0.{2 + number}") for number in range(ADDRESSES)]

    def of(self, number: int) -> "_Source":
        return self._all[number % len(self._all)]

    def __enter__(self) -> "_Sources":
        return self

    def __exit__(self, *_: object) -> None:
        for source in self._all:
            source.http.close()


class _Source:
    def __init__(self, url: str, address: str) -> None:
        self._url = url
        transport = httpx.HTTPTransport(local_address=address, verify=False)
        self.http = httpx.Client(base_url=url, transport=transport, timeout=TIMEOUT_S, trust_env=False)

    def post(self, path: str, token: str, body: object) -> int:
        """Return the status of a person's request."""
        answer = self.http.post(path, content=encode(body), headers={"Authorization": f"Bearer {token}"})
        if answer.status_code not in (_NOT_FOUND, _LIMITED, _FOUND):
            raise BenchFailed(f"{path} answered {answer.status_code}: {answer.text[:200]}")
        return answer.status_code

    def history(self, token: str) -> int:
        """Return how many alerts a person's history tells of."""
        answer = self.http.get("/v1/audit?limit=500", headers={"Authorization": f"Bearer {token}"})
        return sum(entry["act"] in ("codes locked", "pairing switched off") for entry in answer.json()["items"])

    def start_pairing(self, email: str) -> bool:
        """Let a workstation ask for a code (P1); False when the limits refuse it."""
        proofs = ProofMaker(WorkerKey.generate())
        request = PairingRequest(email=email, host=Host(os="L", arch="x", hostname="h"), worker_version="0.1.0")
        for _ in range(2):
            proof = proofs.make("POST", f"{self._url}/v1/pairings")
            answer = self.http.post("/v1/pairings", content=encode(request), headers={"DPoP": proof})
            proofs.nonce = answer.headers.get("DPoP-Nonce", proofs.nonce)
            if answer.status_code != 401:
                return answer.status_code == 201
        return False
