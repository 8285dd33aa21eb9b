"""A whole site for fault tests: one coordinator behind a fault proxy, and paired workers, all as real processes.

Every part may be killed and started again in place. What a site is made of is prepared once (:class:`Blueprint`) and
copied, so that a schedule of faults does not spend its time on making accounts and pairing.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from app.cli.answers import Patience
from app.cli.bundle import CODE_INPUT, pack
from app.cli.client import CoordinatorClient
from app.cli.local_stack import LocalCoordinator, LocalCore, OwnProcess
from app.cli.pairing_commands import pair_through_core
from tests.faults.proxy import FaultProxy
from tests.faults.secrets import ENVIRONMENT, PASSWORD, secrets_of
from tests.faults.sources import CoordinatorClock, ScriptedReadings
from worker_core.control.messages import PairArgs
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.paths import find_paths
from worker_core.machine.sources import SETTING
from worker_core.machine.spawn import clean_environment, coordinator_command, stoker_command
from worker_core.wire.codec import Message, decode
from worker_core.wire.pairing import PairingApproval, normalise_user_code
from worker_core.wire.signed import Input
from worker_core.wire.spec import canonical_text, parse_spec
from worker_core.wire.status import PairingShown, WorkerStatus

T = TypeVar("T")
EMAIL = "owner@example.org"
SIMULATORS = Path(__file__).parent / "simulators"
NAMES = ("box", "tower")
GUARD_S = 120.0

SETTINGS = """
clock_file = "{clock}"
pairing_interval_s = 0.2
reaper_s = 0.25
presence_flush_s = 0.3
offer_accept_s = 3.0
lease_slack_s = 0.5
lost_not_before_s = 0.5
cancel_forced_s = 4.0
token_ttl_s = 20.0
token_overlap_s = 4.0
nonce_s = 10.0

[worker]
poll_wait_s = 2.0
poll_read_timeout_s = 4.0
heartbeat_s = 0.5
stale_s = 2.0
lease_ttl_s = {lease_s}
token_refresh_from_s = 5.0
token_refresh_to_s = 8.0
retry_cap_s = 1.0
bulk_retry_cap_s = 1.0
reconnect_spread_s = 0.1
events_flush_s = 0.2
events_max = 40
checkpoint_upload_wait_s = 15.0
"""


class SiteError(Exception):
    """Something did not come to be within its time; the text says what."""


class Admin(Message):
    """The part of ``admin.json`` that says where the running coordinator itself listens."""

    url: str
    key: str


class Coordinator(OwnProcess):
    """A coordinator that is known under the proxy's address."""

    def __init__(self, folder: Path, public_url: str, port: int) -> None:
        self.data = folder / "coordinator"
        words = ["--data", str(self.data), "--port", str(port), "--public-url", public_url, "--json"]
        super().__init__(
            "coordinator", coordinator_command("serve", *words), folder / "coordinator.log", environment(folder)
        )

    @property
    def admin(self) -> Admin | None:
        """How it is reached directly, once it serves."""
        if "\n" not in self.output.read_text():
            return None
        try:
            return decode((self.data / "admin.json").read_bytes(), Admin)
        except FileNotFoundError:
            return None


class Core(LocalCore):
    """A core whose clock, disk and GPUs are scripted."""

    def __init__(self, home: Path, script: Path) -> None:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.paths = find_paths(str(home))
        OwnProcess.__init__(
            self,
            "worker",
            stoker_command("run"),
            home / "core.log",
            environment(home) | ENVIRONMENT | {SETTING: str(script)},
        )


class Station:
    """One workstation: its home, its scripted readings, and its core while one runs."""

    def __init__(self, name: str, home: Path) -> None:
        self.name, self.home = name, home
        self.paths = find_paths(str(home))
        self.readings = ScriptedReadings(home.with_name(f"{name}.readings.json"))
        self.core: Core | None = None
        self.worker_id = ""
        self.revoked_at: float | None = None
        if not self.paths.settings_file.exists():
            private_folder(home)
            private_folder(self.paths.config)
            # A disk of a few megabytes, which a test can fill, is room enough.
            self.paths.settings_file.write_text('{"min_free_bytes": 1000000}')

    def start(self) -> Core:
        """Start a core, unless one runs."""
        if self.core is None or not self.core.running:
            self.core = Core(self.home, self.readings.path)
        return self.core

    def kill(self) -> None:
        """End the core alone, as a crash would."""
        if self.core is not None and self.core.running:
            self.core.kill()

    def status(self) -> WorkerStatus | None:
        """What the core says of itself, or None."""
        return self.core.status() if self.core is not None and self.core.running else None

    def jobs(self) -> list[psutil.Process]:
        """The processes below the core."""
        if self.core is None or not self.core.running:
            return []
        try:
            return psutil.Process(self.core.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


class Site:
    """Everything of one site in one folder."""

    def __init__(self, folder: Path, proxy: FaultProxy, port: int, stations: int, token: str, lease_s: float) -> None:
        self.folder, self.proxy, self.token = folder, proxy, token
        self.clock = CoordinatorClock(folder / "clock.json")
        self._port = port
        self.coordinator: Coordinator | None = None
        self.stations = [Station(name, folder / name) for name in NAMES[:stations]]
        self.secrets: set[str] = {PASSWORD, token, *ENVIRONMENT.values()}
        (folder / "coordinator").mkdir(mode=0o700, exist_ok=True)
        (folder / "coordinator" / "coordinator.toml").write_text(
            SETTINGS.format(clock=self.clock.path, lease_s=lease_s)
        )
        self._code: Input | None = None

    def start_coordinator(self) -> None:
        """Start the coordinator, unless it runs, and let the proxy reach it."""
        if self.coordinator is not None and self.coordinator.running:
            return
        started = Coordinator(self.folder, self.proxy.url, self._port)
        self.coordinator = started
        admin = started.wait_for(lambda: started.admin, "it served", GUARD_S)
        self.secrets.add(admin.key)
        self.proxy.upstream = self._port

    @property
    def url(self) -> str:
        """The coordinator itself, past the proxy: how people reach it."""
        return f"http://127.0.0.1:{self._port}"

    def client(self, attempts: int = 4) -> CoordinatorClient:
        """A person's client; to be closed."""
        return CoordinatorClient(self.url, self.token, patience=Patience(attempts=attempts, longest_wait_s=0.5))

    def start(self) -> None:
        """Start everything and learn the workers' ids."""
        for station in self.stations:
            station.start()
        self.start_coordinator()
        self.name_workers()

    def name_workers(self) -> None:
        """Note which worker each station is."""
        with self.client() as client:
            ids = {worker.name: worker.id for worker in client.workers()}
        for station in self.stations:
            station.worker_id = ids[station.name]

    def wait_available(self) -> None:
        """Wait until every station may take a job."""
        for station in self.stations:
            wait_for(lambda station=station: station.status() or None, f"{station.name} answers")
            wait_for(
                lambda station=station: (found := station.status()) is not None and found.state == "available",
                f"{station.name} is available",
            )

    def submit(self, client: CoordinatorClient, spec: dict[str, object]) -> str:
        """Queue a job of the patient simulator."""
        if self._code is None:
            bundle = pack(parse_spec(spec).files, SIMULATORS)
            assert bundle is not None
            self._code = client.upload(CODE_INPUT, bundle.data)
        return client.submit(canonical_text(spec), (self._code,))

    def learn_secrets(self) -> None:
        """Note every secret that a private file of the site holds now."""
        self.secrets |= secrets_of(self.folder)

    def end(self, grace_s: float = 20.0) -> dict[str, int | None]:
        """Ask everybody to leave and return their exit codes; None for one that had to be killed."""
        codes: dict[str, int | None] = {}
        for station in self.stations:
            if station.core is not None:
                codes[station.name] = _end(station.core, grace_s)
        if self.coordinator is not None:
            codes["coordinator"] = _end(self.coordinator, grace_s)
        return codes

    def abandon(self) -> None:
        """End everything at once, whatever state it is in."""
        parts: list[OwnProcess | None] = [*(station.core for station in self.stations), self.coordinator]
        for part in parts:
            if part is not None and part.running:
                part.process.send_signal(signal.SIGCONT)
                part.end(grace_s=1.0)


class Blueprint:
    """A site with an account and paired workers, at rest; made once and copied for each schedule."""

    def __init__(self, folder: Path, proxy: FaultProxy, stations: int = 2, lease_s: float = 3.0) -> None:
        self.folder, self.proxy, self.stations, self.lease_s = folder, proxy, stations, lease_s
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        maker = LocalCoordinator(folder)
        try:
            maker.add_account(EMAIL, PASSWORD)
            self.token = maker.add_token(EMAIL)
            self.port = maker.port
        finally:
            maker.end(grace_s=10.0)
        site = Site(folder, proxy, self.port, stations, self.token, lease_s)
        try:
            for station in site.stations:
                station.start()
            site.start_coordinator()
            for station in site.stations:
                _pair(site, station)
            site.wait_available()
            codes = site.end()
        finally:
            site.abandon()
        self.secrets = site.secrets | proxy.record.secrets
        if set(codes.values()) != {0}:
            raise SiteError(f"the parts of the blueprint ended with {codes}")

    def build(self, folder: Path, stations: int) -> Site:
        """Return a site of its own, with nothing running yet."""
        shutil.copytree(self.folder, folder)
        for left in folder.glob("**/*.log"):
            left.unlink()
        site = Site(folder, self.proxy, self.port, stations, self.token, self.lease_s)
        site.secrets |= self.secrets
        return site


def _pair(site: Site, station: Station) -> None:
    assert station.core is not None
    station.core.wait_ready()

    def approve(shown: PairingShown) -> None:
        with site.client() as client:
            found = client.lookup(normalise_user_code(shown.user_code))
            client.approve(
                found.pairing_id,
                PairingApproval(
                    name=station.name, job_scopes=("any",), authorization_s=86400, fingerprint_confirmed=True
                ),
            )

    with station.core.control() as control:
        arguments = PairArgs(coordinator=site.proxy.url, email=EMAIL, credential_store="file")
        outcome = pair_through_core(control, arguments, approve)
    if outcome.state != "approved":
        raise SiteError(f"{station.name} was not paired: {outcome}")


def environment(home: Path) -> dict[str, str]:
    """Return an environment in which nothing of this person's own worker is seen or touched."""
    made = clean_environment({"STOKER_HOME": str(home), "STOKER_CREDENTIAL_STORE": "file"}, own=True)
    made.pop("STOKER_COORDINATOR", None)
    return made


def wait_for(look: Callable[[], T | None], what: str, longest_s: float = GUARD_S) -> T:
    """Return what ``look`` returns once it is neither None nor False; raises :class:`SiteError`."""
    give_up = time.monotonic() + longest_s
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > give_up:
            raise SiteError(f"{what}: not within {longest_s:.0f} s")
        time.sleep(0.1)


def _end(part: OwnProcess, grace_s: float) -> int | None:
    if part.running:
        part.process.send_signal(signal.SIGCONT)
        part.process.terminate()
    try:
        return part.process.wait(grace_s)
    except subprocess.TimeoutExpired:
        return None
