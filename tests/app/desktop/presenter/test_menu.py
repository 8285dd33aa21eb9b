"""The menu offers what can be done now, under names that never change place."""

from app.desktop.presenter.menu import Item, menu
from app.desktop.presenter.situation import Link, Situation
from worker_core.wire.status import ModesShown, WorkerShown, WorkerStatus


def items(state: str, *, paired: bool = True, here: str = "run", link: Link = Link.CONNECTED) -> dict[str, Item]:
    status = WorkerStatus(
        state=state,
        worker=WorkerShown(id="wrk_1", name="den") if paired else None,
        coordinator="https://train.example.org" if paired else None,
        mode=ModesShown(here=here),  # type: ignore[arg-type]
    )
    return {item.id: item for item in menu(Situation(link=link, status=status))}


def usable(shown: dict[str, Item]) -> set[str]:
    return {key for key, item in shown.items() if item.visible and item.enabled and not item.is_separator}


def test_the_same_items_come_in_the_same_order_whatever_happens() -> None:
    orders = {tuple(items(state)) for state in ("available", "unpaired", "revoked", "nobody-knows")}
    orders.add(tuple(item.id for item in menu(Situation())))
    assert len(orders) == 1


def test_a_paired_worker_can_be_drained_stopped_and_unpaired_but_not_resumed() -> None:
    assert usable(items("available")) == {
        *("unpair", "give-back", "drain", "stop", "metrics", "console", "status", "settings", "quit")
    }


def test_a_drained_worker_can_be_resumed_or_stopped() -> None:
    assert {"resume", "stop"} <= usable(items("paused", here="drain"))
    assert "drain" not in usable(items("paused", here="drain"))


def test_a_stopped_worker_can_only_be_resumed() -> None:
    assert usable(items("paused", here="stop")) & {"drain", "stop", "resume"} == {"resume"}


def test_resume_does_not_pretend_to_lift_what_the_console_asked_for() -> None:
    assert "resume" not in usable(items("paused"))


def test_an_unpaired_or_revoked_worker_can_be_paired() -> None:
    assert "pair" in usable(items("unpaired", paired=False))
    assert "pair" in usable(items("revoked"))
    assert items("pairing", paired=False)["pair"].label == "Show &pairing code…"


def test_a_worker_that_is_gone_can_be_started_and_told_nothing() -> None:
    for link in (Link.ENDED, Link.FAILED):
        assert usable(items("available", link=link)) == {"start", "metrics", "status", "settings", "quit"}


def test_every_command_has_a_mnemonic_and_no_two_visible_ones_share_it() -> None:
    for shown in (items("available"), items("unpaired", paired=False), items("available", link=Link.ENDED)):
        commands = [item for item in shown.values() if item.visible and not item.is_separator][2:]
        keys = [item.label[item.label.index("&") + 1].lower() for item in commands]
        assert len(keys) == len(set(keys)), keys


def test_an_ampersand_in_a_job_name_is_no_mnemonic() -> None:
    situation = Situation(link=Link.FAILED, detail="Fire & flame\nsecond line")
    detail = next(item for item in menu(situation) if item.id == "detail")
    assert detail.label == "Fire && flame second line"
