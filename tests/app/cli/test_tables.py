"""What a person needs to go on is never cut: an id that a list shows works in every command, however narrow it is."""

import json
from collections.abc import Callable

import pytest

from app.cli.commands import main
from app.cli.job_ids import short_ids
from tests.app.cli.conftest import Answer, Asked, ScriptedServer

FIRST = "job_019ad5b07c5e7aa1b2c3d4e5f6a7b8c9"
SECOND = "job_019ad5b07c5f7bb2c3d4e5f6a7b8c9d0"
REASON = "no worker that may take it is available: my-workstation is drained"


def _job(job_id: str, name: str = "LunarLander with a long name", **changes: object) -> dict[str, object]:
    job = {
        "id": job_id,
        "state": "queued",
        "offered": False,
        "kind": "rl-session",
        "name": name,
        "attempt": 1,
        "worker": "workstation-under-the-desk",
        "reason": REASON,
        "created_at": "2026-01-01T00:00:00Z",
        "started_at": None,
        "ended_at": None,
        "step": 1_000_000,
        "progress": 0.5,
        "eta_s": None,
    }
    return {**job, **changes}


@pytest.fixture
def with_jobs(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> Callable[..., None]:
    """Sign in to a coordinator that has these jobs."""

    def sign_in(*job_ids: str) -> None:
        def answer(asked: Asked) -> Answer:
            if asked.path.startswith("/v1/jobs/job_"):
                return Answer.of(_job(asked.path.split("/")[3]))
            return Answer.of({"items": [_job(job_id) for job_id in job_ids], "next": None})

        server.script = answer
        monkeypatch.setenv("STOKER_COORDINATOR", server.url)
        monkeypatch.setenv("STOKER_TOKEN", "token-of-a-person")

    return sign_in


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 200])
def test_an_id_that_jobs_shows_works_in_a_command_at_every_width(
    columns: int,
    with_jobs: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    server: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_jobs(SECOND, FIRST)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["jobs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= columns
    shown = next(line.split()[0] for line in lines if "Lunar" in line)
    assert "…" not in shown
    assert main(["job", "cancel", shown]) == 0
    assert server.asked[-1].path == f"/v1/jobs/{SECOND}/cancel"


def test_why_a_job_waits_is_shown_whole_in_a_narrow_terminal_and_step_and_worker_go(
    with_jobs: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_jobs(FIRST)
    monkeypatch.setenv("COLUMNS", "64")
    assert main(["jobs"]) == 0
    shown = capsys.readouterr().out
    assert "Why" in shown
    assert "Step" not in shown
    words = shown.split()
    assert [word for word in REASON.split() if word not in words] == []


def test_a_pipe_gets_each_job_in_one_line(
    with_jobs: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_jobs(FIRST, SECOND)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["jobs"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[-1] == "Why"
    assert len(lines) == 2
    assert all(line.rstrip().endswith(REASON) for line in lines)


@pytest.mark.parametrize("verb", ["show", "cancel", "retry", "logs", "metrics", "artifacts"])
def test_every_command_of_a_job_takes_the_end_of_an_id(
    verb: str, with_jobs: Callable[..., None], server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with_jobs(FIRST, SECOND)
    main(["job", verb, FIRST[-6:].upper()])
    assert server.asked[-1].path.startswith(f"/v1/jobs/{FIRST}")


def test_a_whole_id_is_used_as_it_is_without_a_look_at_the_list(
    with_jobs: Callable[..., None], server: ScriptedServer
) -> None:
    with_jobs(FIRST)
    assert main(["job", "cancel", FIRST]) == 0
    assert [asked.path for asked in server.asked] == [f"/v1/jobs/{FIRST}/cancel"]


def test_an_end_that_two_jobs_share_cancels_neither(
    with_jobs: Callable[..., None], server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "job_1" + FIRST[5:]
    with_jobs(FIRST, other)
    assert main(["job", "cancel", FIRST[-8:], "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "ambiguous"
    assert FIRST in error["why"]
    assert other in error["why"]
    assert [asked.path for asked in server.asked if "cancel" in asked.path] == []


@pytest.mark.parametrize(("typed", "code", "exit_code"), [("c9", "bad-id", 2), ("ffffffff", "not-found", 1)])
def test_an_id_that_is_too_short_or_of_no_job_is_told(
    typed: str, code: str, exit_code: int, with_jobs: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    with_jobs(FIRST)
    assert main(["job", "cancel", typed, "--json"]) == exit_code
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_the_ids_of_a_list_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    assert short_ids([FIRST, SECOND]) == {FIRST: FIRST[-8:], SECOND: SECOND[-8:]}
    twin = FIRST[:24] + "0" + FIRST[25:]
    shown = short_ids([FIRST, twin])
    assert shown[FIRST] != shown[twin]
    assert short_ids([]) == {}


def test_one_job_is_shown_with_its_whole_id(with_jobs: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    with_jobs(FIRST)
    assert main(["job", "show", FIRST[-8:]]) == 0
    assert FIRST in capsys.readouterr().out
