"""What goes wrong in a training, and with a GPU, is told in the terminal."""

import json
from collections.abc import Callable

import pytest

from app.cli.commands import main
from app.cli.follow import Glance, ProgressShown
from app.cli.status_view import flag_line, show_status
from app.cli.terminal import Terminal
from tests.app.cli.test_follow import _job
from worker_core.wire.status import FlagShown, GpuShown, JobShown, WorkerStatus
from worker_core.wire.vocabulary import HealthAction

GIB = 1 << 30


@pytest.mark.parametrize(
    ("action", "told"),
    [("warn", ""), ("stop", " (the job is stopped)"), ("rollback", " (rolled back to the last good checkpoint)")],
)
def test_a_flag_says_where_what_and_what_was_done(action: HealthAction, told: str) -> None:
    assert flag_line(1204, "the loss is NaN", action) == f"step 1,204: the loss is NaN{told}"


def test_status_shows_the_newest_flags_and_what_holds_a_gpu_back(capsys: pytest.CaptureFixture[str]) -> None:
    flags = tuple(FlagShown(step=step, flag="nan", text="the loss is NaN") for step in (10, 20, 30, 40))
    job = JobShown(id="job_1", attempt=1, epoch=1, kind="rl-session", name="lander", flags=flags)
    card = GpuShown(uuid="GPU-1", name="Card", memory_bytes=24 * GIB, memory_used_bytes=3 * GIB, held="gpu-busy")
    show_status(WorkerStatus(state="training", job=job, gpus=(card,)), Terminal())
    shown = capsys.readouterr().out
    assert [step for step in (10, 20, 30, 40) if f"step {step}:" in shown] == [20, 30, 40]
    assert "Card, 3.0 of 24.0 GiB used, gpu-busy" in shown


def test_who_follows_a_job_hears_of_each_flag_once(capsys: pytest.CaptureFixture[str]) -> None:
    flag = {"attempt": 1, "step": 20, "flag": "stall", "text": "the job stands still", "action": "warn"}
    shown = ProgressShown(Terminal(), None)
    for flags in ([], [flag], [flag]):
        shown.show(Glance(_job(flags=flags)))
    assert capsys.readouterr().out.count("step 20: the job stands still") == 1


@pytest.mark.parametrize("json_wanted", [[], ["--json"]])
def test_without_a_running_worker_no_gpu_can_be_tested_again(
    capsys: pytest.CaptureFixture[str], json_wanted: list[str]
) -> None:
    assert main(["doctor", "--retest-gpu", *json_wanted]) == 3
    said = capsys.readouterr()
    if json_wanted:
        assert json.loads(said.out)["error"]["code"] == "not-running"
    else:
        assert "stoker run" in said.err


def test_the_result_of_each_gpu_stands_in_the_one_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answering_core: Callable[[object], None]
) -> None:
    answering_core(
        {
            "gpus": [
                {"uuid": "GPU-1", "name": "Card", "ok": True},
                {"uuid": "GPU-2", "name": "Card", "ok": False, "text": "GPU is lost", "cure": "Restart that computer."},
            ]
        }
    )
    assert main(["doctor", "--retest-gpu", "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [check["state"] for check in checks] == ["ok", "problem"]
    assert ("GPU is lost" in checks[1]["text"], checks[1]["cure"]) == (True, "Restart that computer.")


@pytest.fixture
def answering_core(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Return a function that gives the answer of a running core to the next command."""

    def answer(document: object) -> None:
        class Line:
            def __enter__(self) -> "Line":
                return self

            def __exit__(self, *_: object) -> None:
                return

            def request(self, _operation: str, **_options: object) -> object:
                return document

        monkeypatch.setattr("app.cli.worker_commands.ControlClient.connect", lambda _paths: Line())

    return answer
