"""Notifications as the desktop shows them: buttons that work, once for each thing, and quiet when they should be."""

import signal
import time

from tests.desktop.kit import Launch, TrayHost, wait_for
from tests.desktop.scripted_core import ScriptedCore, paired, training
from worker_core.wire.status import AuthorizationShown, EndedShown, GpuShown, UpdateShown

ABILITIES = ["actions", "body", "body-markup"]


def ended(number: int, outcome: str = "succeeded", **facts: str) -> EndedShown:
    known = {"attempt_id": f"att_{number}", "job_id": f"job_{number}", "name": f"lander {number}"}
    return EndedShown(**(known | facts), attempt=1, outcome=outcome, at=time.time())  # type: ignore[arg-type]


def running_out(hours: float = 5.0) -> AuthorizationShown:
    return AuthorizationShown(expires_at="2030-01-01T00:00:00Z", remaining_s=hours * 3600, extend_while_healthy=False)


def test_each_thing_is_told_once_with_buttons_that_work_also_over_a_restart(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    host.ask("show_notices", ABILITIES)
    core.set_status(training())
    first = launch("--background", grace_s=0.1)
    host.wait_for_headline("Training")

    core.set_status(training(ended=(ended(1),), update=UpdateShown(version="9.0.0")))
    done = host.wait_for_notice("lander 1 is done")
    assert done["desktop-entry"] == "stoker"
    assert done["urgency"] == 0
    assert done["actions"] == [
        *("default", "Open", "open", "Open", "give-back", "Give back for 1 h", "snooze", "Snooze for 1 h")
    ]

    failed = ended(2, "failed", failure="numeric", message="the loss became NaN <at step 3>")
    core.set_status(training(ended=(ended(1), failed), authorization=running_out()))
    shown = host.wait_for_notice("lander 2 failed")
    assert "NaN &lt;at step 3&gt;. Try a lower" in shown["body"]
    assert shown["replaces"] == done["id"], "a later job takes the place of an earlier one on the screen"
    ending = host.wait_for_notice("authorization ends in 5 h")

    assert host.ask("choose", ending["id"], "renew")
    wait_for(lambda: first.opened.exists() and "/workers#wrk_1" in first.opened.read_text(), what="the worker's card")
    assert host.ask("choose", shown["id"], "default")
    wait_for(lambda: first.windows(), what="the window of an opened notice")

    told = len(host.ask("noticed"))
    assert not any("9.0.0" in notice["summary"] for notice in host.ask("noticed")), "never in the middle of a job"
    first.process.send_signal(signal.SIGKILL)
    first.wait()
    launch("--background", grace_s=0.1)
    host.wait_for_headline("Training")
    core.set_status(
        paired(ended=(ended(1), failed), authorization=running_out(4.9), update=UpdateShown(version="9.0.0"))
    )
    host.wait_for_notice("Stoker 9.0.0 is available", after=told)
    assert len(host.ask("noticed")) == told + 1, "nothing is told twice"


def test_snoozed_notices_wait_and_trouble_of_a_gpu_or_the_disk_is_told_by_name(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    host.ask("show_notices", ["body"])
    core.set_status(paired())
    launch("--background", grace_s=0.1)
    host.wait_for_headline("Available")
    gpu = GpuShown(uuid="GPU-1", name="RTX 4090", held="gpu-quarantined")
    core.set_status(paired(gpus=(gpu,), reasons=("gpu-quarantined", "disk-full")))
    full = host.wait_for_notice("The disk is full")
    assert host.wait_for_notice("RTX 4090 gets no more jobs")["actions"] == [], "this server shows no buttons"
    assert len(host.ask("noticed")) == 2
    host.ask("choose", full["id"], "snooze")
    wait_for(lambda: (core.paths.config / "desktop.json").exists(), what="the snooze on disk")
    core.set_status(paired(ended=(ended(3),)))
    host.ask("about_to_show")
    time.sleep(0.5)
    assert len(host.ask("noticed")) == 2


def test_nothing_is_told_in_the_first_moments_and_not_what_passes_by_itself(
    core: ScriptedCore, host: TrayHost, launch: Launch
) -> None:
    host.ask("show_notices", ABILITIES)
    core.set_status(paired("problem", reasons=("device-missing",), ended=(ended(4),)))
    launch("--background", grace_s=3.0)
    host.wait_for_headline("Needs attention")
    assert host.ask("noticed") == []
    core.set_status(paired("offline", reasons=("coordinator-unreachable",)))
    host.wait_for_headline("Offline")
    core.set_status(paired(ended=(ended(5, "failed"),)))
    host.wait_for_notice("lander 5 failed")
    assert len(host.ask("noticed")) == 1
