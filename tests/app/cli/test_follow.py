"""What a progress bar says is what the coordinator says."""

import io
import re

import msgspec
import pytest
from rich.console import Console

from app.cli.client import CoordinatorClient
from app.cli.commands import main
from app.cli.follow import Glance, beside_bar, facts_of, glances, phase_of, progress_bar, time_left
from tests.app.cli.conftest import Answer, Asked, ScriptedServer
from worker_core.wire.client import JobView
from worker_core.wire.codec import Number
from worker_core.wire.vocabulary import JobState


def _job(state: JobState = "running", **fields: object) -> JobView:
    plain: dict[str, object] = {
        "id": "job_1",
        "state": state,
        "offered": False,
        "kind": "rl-session",
        "name": "lander",
        "attempt": 1,
        "worker": "w",
        "reason": "",
        "created_at": "2026-01-01T00:00:00Z",
        "started_at": None,
        "ended_at": None,
        "step": 1234,
        "progress": 0.5,
        "eta_s": 75.0,
    }
    return msgspec.convert({**plain, **fields}, JobView)


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (_job(phase="training"), "training"),
        (_job(), "starting"),
        (_job("queued", reason="no worker is available"), "queued: no worker is available"),
        (_job("queued", offered=True), "offered"),
        (_job("canceling"), "canceling"),
    ],
)
def test_the_phase_is_the_job_s_own_word_or_why_it_waits(view: JobView, said: str) -> None:
    assert phase_of(view) == said


def test_step_return_speed_and_time_left_are_shown_as_far_as_known() -> None:
    glance = Glance(_job(), {"rollout/ep_rew_mean": 12.34, "time/fps": 9876.5})
    assert facts_of(glance) == "step 1,234 · return 12.3 · 9,876 steps/s"
    assert facts_of(Glance(_job(step=0))) == ""
    assert facts_of(Glance(_job(), {"rollout/ep_rew_mean": "NaN"})) == "step 1,234 · return nan"
    assert time_left(_job()) == "1 min 15 s left"
    assert time_left(_job("queued")) == ""


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_bar_keeps_its_length_and_no_fact_is_cut_in_the_middle(width: int) -> None:
    newest: dict[str, Number] = {"rollout/ep_rew_mean": -123.4, "time/fps": 12345.6}
    training = Glance(_job(phase="training", step=1_000_000, eta_s=1975.0), newest)
    waiting = Glance(_job("queued", reason="worker stopped, checkpoint at step 29,696; waiting for a worker"))
    for glance in (training, waiting):
        console = Console(width=width, force_terminal=True, file=io.StringIO())
        phase, facts, left = beside_bar(glance, width)
        bar = progress_bar(console)
        bar.add_task("", total=4, completed=2, phase=phase, facts=facts, left=left)
        with console.capture() as shown:
            console.print(bar.get_renderable(), soft_wrap=False)
        line = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", shown.get()).rstrip("\n")
        # What a terminal writes behind it on Ctrl-C must not begin a new line.
        assert len(line) + len("^C") <= width
        assert sum(line.count(part) for part in "━╸╺") == 12
        assert (phase in line, facts in line, left in line) == (True, True, True)
    phase, facts, _ = beside_bar(training, width)
    assert facts.startswith("step 1,000,000 · return -123.4")
    assert not facts.endswith(("·", "…"))
    phase, facts, _ = beside_bar(waiting, width)
    assert phase == "queued"
    assert facts.startswith("worker stopped, checkpoint at step 29,696")


class _Coordinator:
    """A job that runs once and has then ended."""

    def __init__(self, end: JobState, reason: str = "") -> None:
        self.views = [_job("queued"), _job("running"), _job(end, reason=reason)]

    def __call__(self, asked: Asked) -> Answer:
        if asked.path.startswith("/v1/jobs/job_1/metrics"):
            point = {"name": "time/fps", "step": 1, "value": 5.0, "attempt": 1, "time": 0.0}
            return Answer.of({"items": [point] if "after=" not in asked.path else [], "next": "c1", "done": False})
        if asked.path == "/v1/jobs":
            return Answer.of({"job_id": "job_1"}, 201)
        return Answer.of(msgspec.to_builtins(self.views.pop(0) if len(self.views) > 1 else self.views[0]))


def test_following_ends_with_the_job_and_keeps_the_newest_metric(server: ScriptedServer) -> None:
    server.script = _Coordinator("succeeded")
    with CoordinatorClient(server.url, "t") as client:
        seen = list(glances(client, "job_1", poll_s=0.01))
    assert [glance.view.state for glance in seen] == ["queued", "running", "succeeded"]
    assert seen[-1].newest == {"time/fps": 5.0}


def test_a_coordinator_that_is_away_for_a_moment_is_waited_for(server: ScriptedServer) -> None:
    answers = _Coordinator("succeeded")
    away = iter([False, False, True, True, False, False])
    server.script = lambda asked: Answer.html(502) if next(away, False) else answers(asked)
    with CoordinatorClient(server.url, "t") as client:
        seen = list(glances(client, "job_1", poll_s=0.01))
    assert seen[-1].view.state == "succeeded"


@pytest.mark.parametrize(("end", "code"), [("succeeded", 0), ("failed", 1), ("canceled", 1)])
def test_submit_and_wait_prints_id_and_outcome_and_exits_by_it(
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
    end: JobState,
    code: int,
) -> None:
    server.script = _Coordinator(end, "out of memory")
    monkeypatch.setenv("STOKER_COORDINATOR", server.url)
    monkeypatch.setenv("STOKER_TOKEN", "t")
    spec = tmp_path_factory.mktemp("spec") / "job.toml"
    spec.write_text('kind = "rl-session"\nname = "a"\n[system.simulator]\nentry = "gymnasium:CartPole-v1"\n')
    assert main(["submit", str(spec), "--wait", "--json"]) == code
    first, last = (msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines())
    assert first == {"job_id": "job_1"}
    assert (last["job_id"], last["state"], last["reason"]) == ("job_1", end, "out of memory")
