"""The whole story on one machine: coordinator, pairing, approval, one real training job, its result."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.cli.bundle import CODE_INPUT, pack
from app.cli.client import CoordinatorClient
from app.cli.containment_words import containment_words
from app.cli.credentials import Credentials
from app.cli.errors import CliError
from app.cli.follow import Glance, glances
from app.cli.job_commands import fetch_results, load_job
from app.cli.local_stack import LocalCoordinator, LocalCore, end_strays
from app.cli.pairing_commands import pair_through_core
from worker_core.control.messages import PairArgs, QuitArgs
from worker_core.wire.client import JobView
from worker_core.wire.codec import BadMessage, Message, Number, decode
from worker_core.wire.pairing import PairingApproval, normalise_user_code
from worker_core.wire.spec import canonical_text
from worker_core.wire.status import PairingShown

EMAIL = "demo@stoker.example"
WORKER = "this-machine"
_DAY_S = 86400
_SETTINGS = """# A demo does not wait as long as a real pairing does.
pairing_interval_s = 1
"""


class _Benchmark(Message):
    """The part of benchmark.json that the demo tells."""

    return_before: Number
    return_after: Number
    steps_per_second: Number
    episodes: int = 0


@dataclass(frozen=True)
class Comparison:
    """What training changed, and where the policy lies."""

    before: float
    after: float
    steps_per_second: float
    episodes: int
    policy: Path
    folder: Path


class Demo:
    """The parts of the story in their order; each step leaves what the next one needs."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.password = secrets.token_urlsafe(18)
        self.coordinator: LocalCoordinator | None = None
        self.core: LocalCore | None = None
        self.client: CoordinatorClient | None = None
        self.job_id: str | None = None

    def start(self) -> str:
        """Start coordinator and worker, make an account, and return the console's address."""
        self.core = LocalCore(self.home / "worker", "--started-by", "terminal")
        self.coordinator = LocalCoordinator(self.home, _SETTINGS)
        self.coordinator.add_account(EMAIL, self.password)
        token = self.coordinator.add_token(EMAIL)
        self.client = CoordinatorClient.signed_in(Credentials(self.coordinator.url, token))
        self.core.wait_ready()
        return self.coordinator.url

    def pair(self, on_code: Callable[[PairingShown], None]) -> str:
        """Pair the worker and approve it as a person would; returns the worker's name."""
        core, client, coordinator = self._parts()

        def approve(shown: PairingShown) -> None:
            on_code(shown)
            found = client.lookup(normalise_user_code(shown.user_code))
            if found.fingerprint != shown.fingerprint:
                raise CliError("The fingerprints differ.", why="Something sits between the two.", code="fingerprint")
            client.approve(found.pairing_id, _approval())

        arguments = PairArgs(coordinator=coordinator.url, email=EMAIL, name=WORKER, credential_store="file")
        with core.control() as control:
            outcome = pair_through_core(control, arguments, approve)
        if outcome.state != "approved":
            raise CliError(f"The pairing was {outcome.state}.", why=outcome.detail, code="pairing-failed")
        ready = core.wait_until(lambda status: status.state in ("available", "problem"), "the worker was available")
        if ready.state != "available":
            raise CliError("The worker takes no job.", why=ready.detail, code="worker-problem")
        return outcome.worker_name or WORKER

    def contained_by(self) -> str:
        """Return in words what keeps the job of the demo to itself."""
        status = self._parts()[0].status()
        return containment_words(status.containment) if status else ""

    def submit(self, spec: Path) -> str:
        """Queue the job and return its id."""
        _, client, _ = self._parts()
        raw, parsed = load_job(spec)
        bundle = pack(parsed.files, spec.parent)
        inputs = (client.upload(CODE_INPUT, bundle.data),) if bundle else ()
        self.job_id = client.submit(canonical_text(raw), inputs)
        return self.job_id

    def train(self, show: Callable[[Glance], None]) -> JobView:
        """Follow the job to its end; raises when it did not succeed."""
        _, client, _ = self._parts()
        assert self.job_id is not None
        last: Glance | None = None
        for last in glances(client, self.job_id):
            show(last)
        assert last is not None
        if last.view.state != "succeeded":
            raise CliError(f"The job {last.view.state}.", why=last.view.reason, code="job-ended")
        return last.view

    def bring_home(self, folder: Path) -> Comparison:
        """Copy the results into ``folder`` and read what training changed."""
        _, client, _ = self._parts()
        assert self.job_id is not None
        fetch_results(client, client.artifacts(self.job_id), folder)
        policy = folder / "policy.safetensors"
        if not policy.exists():
            raise CliError("The job brought no policy.", code="no-results")
        try:
            benchmark = decode((folder / "benchmark.json").read_bytes(), _Benchmark)
        except (OSError, BadMessage) as error:
            raise CliError("The job brought no readable benchmark.json.", why=str(error), code="no-results") from error
        return Comparison(
            before=float(benchmark.return_before),
            after=float(benchmark.return_after),
            steps_per_second=float(benchmark.steps_per_second),
            episodes=benchmark.episodes,
            policy=policy,
            folder=folder,
        )

    def end(self) -> None:
        """End everything that was started; nothing of it goes on."""
        if self.client is not None:
            self.client.close()
        if self.core is not None:
            self._quit_core(self.core)
            self.core.end()
        if self.coordinator is not None:
            self.coordinator.end()
        end_strays(self.home)

    def let_go(self) -> None:
        """Leave coordinator and worker running."""
        if self.client is not None:
            self.client.close()

    def _quit_core(self, core: LocalCore) -> None:
        if core.status() is not None:
            with core.control() as control:
                control.request("quit", QuitArgs(how="now"))

    def _parts(self) -> tuple[LocalCore, CoordinatorClient, LocalCoordinator]:
        assert self.core is not None
        assert self.client is not None
        assert self.coordinator is not None
        return self.core, self.client, self.coordinator


def _approval() -> PairingApproval:
    return PairingApproval(
        name=WORKER,
        job_scopes=("any",),
        authorization_s=_DAY_S,
        fingerprint_confirmed=True,
        extend_while_healthy=True,
    )
