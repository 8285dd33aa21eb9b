"""A worker that runs where no GPU can be reached says so, with the cure."""

import pytest

from worker_core.machine.gpu_session import gpu_session_obstacle, of_macos_domain, of_windows_session


def test_a_windows_service_is_told_to_start_at_log_on() -> None:
    assert "log on" in of_windows_session(0)
    assert "service" in of_windows_session(0)
    assert of_windows_session(1) == ""


@pytest.mark.parametrize(("domain", "hinders"), [("System", True), ("LoginWindow", True), ("Aqua", False), ("", False)])
def test_a_macos_daemon_is_told_to_run_as_an_agent(domain: str, hinders: bool) -> None:
    assert ("agent" in of_macos_domain(domain)) is hinders


def test_on_linux_every_session_has_its_gpus() -> None:
    assert gpu_session_obstacle() == ""
