"""What contains jobs is said in one line, true for what is in force."""

import json
from pathlib import Path

import pytest

from app.cli.containment_words import containment_words
from app.cli.doctor_containment import containment_findings
from worker_core.machine.paths import find_paths
from worker_core.wire.status import ContainmentShown

BOUNDED = ("memory", "processes")


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (
            ContainmentShown(by="bubblewrap", network=False, limits=BOUNDED),
            "bubblewrap; no network; memory and processes bounded",
        ),
        (ContainmentShown(by="sandbox-exec", network=True), "sandbox-exec; network for jobs that ask for it"),
        (
            ContainmentShown(by="job-object", limits=BOUNDED),
            "a job object, which keeps a job together and not from your files; memory and processes bounded",
        ),
        (ContainmentShown(), "nothing: a job can read what you can"),
    ],
)
def test_one_line_says_by_what_with_which_network_and_what_is_bounded(shown: ContainmentShown, words: str) -> None:
    assert containment_words(shown) == words


@pytest.mark.parametrize(("allowed", "state"), [(False, "problem"), (True, "warning")])
def test_the_doctor_says_what_it_means_when_nothing_contains_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool, state: str
) -> None:
    paths = find_paths(str(tmp_path / "home"))
    paths.config.mkdir(parents=True)
    paths.settings_file.write_text(json.dumps({"allow_uncontained": allowed}))
    monkeypatch.setenv("PATH", str(tmp_path))
    (finding,) = containment_findings(paths)
    assert (finding.name, finding.state) == ("containment", state)
    assert "apt-get install bubblewrap" in finding.cure
    if allowed:
        held = "what holds them is nothing: a job can read what you can"
        assert finding.text.startswith(f"Jobs run uncontained, as allow_uncontained says; {held}")


def test_the_doctor_tries_the_sandbox_and_names_settings_that_cannot_be_read(tmp_path: Path) -> None:
    paths = find_paths(str(tmp_path / "home"))
    (finding,) = containment_findings(paths)
    assert (finding.state, "bubblewrap" in finding.text, "no network" in finding.text) == ("ok", True, True)
    paths.config.mkdir(parents=True)
    paths.settings_file.write_text('{"max_processes": 1}')
    (finding,) = containment_findings(paths)
    assert (finding.state, "max_processes" in finding.text) == ("problem", True)
