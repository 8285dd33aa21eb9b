"""The state machine in short histories: what comes first, and what has to wait for what."""

from worker_core.core import life as lives
from worker_core.core.life import Life, advance

RUNNING = Life("connected", "running")


def test_what_the_coordinator_holds_back_is_known_from_the_first_answer_after_a_conflict() -> None:
    held, _ = advance(Life("conflict"), lives.Quarantined(held=True))
    assert advance(held, lives.SessionOpened())[0].phase == "quarantined"


def test_a_job_granted_after_a_stop_is_given_back_and_never_started() -> None:
    after, actions = advance(Life("connected", "accepting", here="stop"), lives.OfferGranted())
    assert after.phase == "paused"
    assert actions == ("give-back", "report")


def test_quitting_while_a_job_is_accepted_ends_after_the_answer() -> None:
    leaving, _ = advance(Life("connected", "accepting"), lives.LeaveAsked("checkpoint"))
    assert advance(leaving, lives.OfferGranted())[1] == ("give-back", "leave")
    assert advance(leaving, lives.OfferGone())[1] == ("leave",)


def test_a_lease_that_may_be_lost_ends_no_job_until_its_time_without_contact_is_over() -> None:
    risky, actions = advance(RUNNING, lives.LeaseLapsed())
    assert (risky.at_risk, risky.phase, actions) == (True, "busy", ())
    safe, actions = advance(risky, lives.LeaseHeld())
    assert (safe, actions) == (RUNNING, ())
    over, actions = advance(risky, lives.OfflineTooLong())
    assert (over.phase, actions) == ("stopping", ("stop-job",))
    free, _ = advance(over, lives.JobGone())
    assert not free.at_risk


def test_time_without_contact_cannot_end_a_job_whose_lease_is_good() -> None:
    assert advance(RUNNING, lives.OfflineTooLong()) == (RUNNING, ())


def test_quitting_with_a_job_leaves_when_its_tree_is_gone() -> None:
    leaving, actions = advance(RUNNING, lives.LeaveAsked("checkpoint"))
    assert "leave" not in actions
    assert advance(leaving, lives.JobGone())[1] == ("leave",)


def test_the_stricter_side_wins_and_each_lifts_only_its_own() -> None:
    both = Life("connected", console="drain", here="stop")
    lifted, _ = advance(both, lives.ConsoleMode("run"))
    assert lifted.phase == "paused"
    lifted, _ = advance(lifted, lives.LocalMode("run"))
    assert lifted.phase == "ready"
