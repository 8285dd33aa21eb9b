"""A browser, a signed-in page, and a training session with real metrics, lines and artifacts."""

import base64
import hashlib
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize, expect, sync_playwright

from worker_core.wire.client import JobSubmit
from worker_core.wire.spec import canonical_text

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
EMAIL = "ada@example.org"
PASSWORD = "correct horse battery"
GUARD_MS = 15_000
SPEC: dict[str, object] = {
    "kind": "rl-session",
    "name": "cartpole",
    "system": {"simulator": {"entry": "gymnasium:CartPole-v1"}},
    "training": {"cycles": 4, "simulators": 4},
}
NASTY = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "</pre></div><svg onload=alert(1)>",
    "\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07",
    "{{ 7*7 }} ${7*7} <%= 7*7 %>",
    "&lt;b&gt; \u202egnp.exe",
)
"""Lines that try to become more than text."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for the tests of a file: while it is open its event loop runs, and no asynchronous test may."""
    expect.set_options(timeout=GUARD_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@dataclass
class Watched:
    """A page and everything that went wrong on it."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)

    def note(self, message: ConsoleMessage) -> None:
        """Remember an error of the browser's console."""
        if message.type == "error":
            self.faults.append(message.text)

    def open(self, path: str) -> Page:
        """Go to a path of the console."""
        self.page.goto(self.url + path, wait_until="load")
        return self.page

    def assert_clean(self) -> None:
        """No console error, no exception, no violation of the content security policy."""
        violations: list[str] = self.page.evaluate("window.violations ?? []")
        assert self.faults + violations == []


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Open pages with contexts of their own; ``cookie`` signs in."""
    contexts: list[Any] = []

    def opened(url: str, cookie: dict[str, str] | None = None, *, width: int = 1280, **options: Any) -> Watched:
        viewport: ViewportSize = {"width": width, "height": 800}
        context = browser.new_context(viewport=viewport, **options)
        context.set_default_timeout(GUARD_MS)
        contexts.append(context)
        for name, value in (cookie or {}).items():
            context.add_cookies([{"name": name, "value": value, "url": url}])
        page = context.new_page()
        watched = Watched(page, url)
        page.on("console", watched.note)
        page.on("pageerror", lambda error: watched.faults.append(str(error)))
        if options.get("java_script_enabled", True):
            page.add_init_script(
                "window.violations = [];"
                "addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective));"
            )
        return watched

    yield opened
    for context in contexts:
        context.close()


@contextmanager
def log_in(url: str, email: str = EMAIL, password: str = PASSWORD) -> Generator[httpx.Client]:
    """Give a client that is signed in as a browser is, by form and cookie."""
    with httpx.Client(base_url=url, timeout=30.0, trust_env=False, follow_redirects=False) as client:
        answer = client.post("/login", data={"email": email, "password": password, "next": "/workers"})
        assert answer.status_code == 303, answer.text
        yield client


@dataclass
class Session:
    """A training session that a test feeds."""

    worker: Any
    job_id: str
    attempt_id: str
    epoch: int
    next_seq: int = 0

    def send(self, *events: dict[str, object]) -> None:
        """Send events as the worker does."""
        batch = {"epoch": self.epoch, "first_seq": self.next_seq, "events": events}
        answer = self.worker.call("POST", f"/v1/attempts/{self.attempt_id}/events", batch)
        assert answer.status_code == 200, answer.text
        self.next_seq += len(events)

    def metric(self, step: int, **values: object) -> None:
        """Send one step's metrics; ``train__loss`` means ``train/loss``."""
        named = {name.replace("__", "/"): value for name, value in values.items()}
        self.send({"t": "m", "ts": time.time(), "step": step, "values": named})

    def line(self, text: str, stream: str = "stdout") -> None:
        """Send one line of output."""
        self.send({"t": "l", "ts": time.time(), "stream": stream, "text": text})

    def artifact(self, name: str, body: bytes, kind: str = "result") -> None:
        """Upload an artifact."""
        digest = hashlib.sha256(body).hexdigest()
        request = {"epoch": self.epoch, "name": name, "kind": kind, "sha256": digest, "size": len(body), "step": 1}
        answer = self.worker.call("POST", f"/v1/attempts/{self.attempt_id}/artifacts", request)
        assert answer.status_code in (200, 201), answer.text
        upload = answer.json().get("upload")
        if upload is None:
            return
        headers = {
            "Upload-Offset": "0",
            "Content-Digest": f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:",
            "Content-Type": "application/octet-stream",
        }
        path = f"/v1/uploads/{upload['id']}"
        assert self.worker.call("PATCH", path, content=body, headers=headers).status_code == 204
        done = self.worker.call("POST", f"{path}/finish", {"sha256": digest, "size": len(body)})
        assert done.status_code == 200, done.text


def begin_session(live: Any, worker: Any, **changes: object) -> Session:
    """Submit a job and let a worker accept it."""
    account = live.do(live.services.people.authenticate(EMAIL, PASSWORD, "127.0.0.1"))
    spec = canonical_text({**SPEC, **changes})
    live.do(live.services.queue.jobs.submit(account.id, JobSubmit(spec=spec), by=EMAIL))
    return take_session(worker)


def take_session(worker: Any) -> Session:
    """Let a worker accept the job that is offered next."""
    observed = {"gen": 0, "rev": 0}
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        poll = {"state": "available", "free_slots": 1, "wait": 5, "observed": observed}
        answer = worker.call("POST", "/v1/poll", poll)
        said = answer.json() if answer.status_code == 200 else {}
        if said.get("offer"):
            break
        observed = {key: said["control"][key] for key in observed} if said.get("control") else observed
    else:
        raise AssertionError("the job was not offered")
    offer = claims_of(said["offer"])
    accepted = worker.call("POST", f"/v1/attempts/{offer['attempt_id']}/accept", {"epoch": offer["epoch"]})
    assert accepted.status_code == 200, accepted.text
    return Session(worker, offer["job_id"], offer["attempt_id"], offer["epoch"])


def claims_of(token: str) -> dict[str, Any]:
    """Return what a signed object says, unverified."""
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def feed(session: Session, points: int = 60) -> None:
    """Send what a CartPole training sends."""
    now = time.time()
    events: list[dict[str, object]] = []
    for index in range(points):
        values: dict[str, object] = {
            "rollout/ep_rew_mean": 20 + 480 / (1 + math.exp(-(index - 30) / 6)),
            "train/loss": 60 * math.exp(-index / 40) + 2,
            "time/fps": 2900 + 150 * math.sin(index / 9),
            "train/approx_kl": 0.01 + 0.005 * math.sin(index / 5),
        }
        if index in (40, 41):
            values["train/loss"] = "NaN"
        events.append({"t": "m", "ts": now + index, "step": index * 512, "values": values})
        events.append({"t": "l", "ts": now + index, "stream": "stdout", "text": f"update {index}"})
    for start in range(0, len(events), 200):
        session.send(*events[start : start + 200])
    benchmark = {f"benchmark/initial/policy/reset/{name}": value for name, value in (("mean", 22.5), ("ci95", 3.1))}
    session.send({"t": "m", "ts": now, "step": 0, "values": benchmark})
    for text in NASTY:
        session.line(text, "stderr")


@dataclass
class Served:
    """A coordinator in a process of its own."""

    process: subprocess.Popen[bytes]
    url: str

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.communicate(timeout=GUARD_MS / 1000)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start the real command on one data folder, with an account; again after it was killed."""
    command = [sys.executable, "-m", "coordinator"]
    data = ["--data", str(tmp_path / "coordinator")]
    subprocess.run(
        [*command, "account", "add", EMAIL, "--password-stdin", *data],
        input=PASSWORD.encode(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    started: list[Served] = []

    def start(port: int = 0) -> Served:
        process = subprocess.Popen(
            [*command, "serve", "--port", str(port), *data], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        served = Served(process, json.loads(process.stdout.readline())["url"])
        started.append(served)
        return served

    yield start
    for served in started:
        if served.process.poll() is None:
            served.kill()


@pytest.fixture(scope="session")
def sign_in() -> Callable[..., AbstractContextManager[httpx.Client]]:
    """Sign in by form: ``sign_in(url)``."""
    return log_in


@pytest.fixture(scope="session")
def start_training() -> Callable[..., Session]:
    """Submit a job and let a worker accept it: ``start_training(live, worker)``."""
    return begin_session


@pytest.fixture(scope="session")
def go_on_training() -> Callable[..., Session]:
    """Let a worker accept the job that is offered next: ``go_on_training(worker)``."""
    return take_session


@pytest.fixture(scope="session")
def nasty() -> tuple[str, ...]:
    """Lines that try to become more than text."""
    return NASTY


@pytest.fixture(scope="module")
def session(coordinator: Any, ada: Any) -> Session:
    """A training session with metrics, lines that attack the page, and artifacts."""
    worker = coordinator.worker(ada)
    begun = begin_session(coordinator, worker)
    feed(begun)
    begun.artifact("policy.safetensors", b"weights" * 100)
    begun.artifact("report.html", b"<script>document.title='owned'</script>")
    return begun


@pytest.fixture(scope="module")
def client(coordinator: Any) -> Iterator[httpx.Client]:
    """Ada, signed in by form."""
    with log_in(coordinator.url) as signed_in:
        yield signed_in


@pytest.fixture(scope="module")
def cookie(client: httpx.Client) -> dict[str, str]:
    """Ada's log-in cookie."""
    return dict(client.cookies)
