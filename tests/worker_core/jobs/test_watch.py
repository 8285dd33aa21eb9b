"""When a job is told to stop and when it is ended."""

from hypothesis import given
from hypothesis import strategies as st

from worker_core.jobs.watch import MAX_STEP_S, Use, Watch
from worker_core.wire.work import Limits

LIMITS = Limits(max_runtime_s=100, max_disk_bytes=1000, stop_grace_s=10, silence_s=20)


def test_silence_ends_a_job_once() -> None:
    watch = Watch(LIMITS)
    actions = [watch.tick(1.0) for _ in range(30)]
    assert actions.index("kill") == 20
    assert actions.count("kill") == 1
    assert watch.cause == "silence"


def test_a_frame_ends_the_silence() -> None:
    watch = Watch(LIMITS)
    for _ in range(90):
        watch.heard()
        assert watch.tick(1.0) is None


def test_a_core_that_was_blocked_or_asleep_ends_no_job() -> None:
    watch = Watch(LIMITS)
    assert [watch.tick(90.0) for _ in range(10)] == [None] * 10


def test_the_time_limit_orders_a_stop_and_kills_after_the_grace() -> None:
    watch = Watch(Limits(max_runtime_s=5, max_disk_bytes=1, stop_grace_s=3, silence_s=100))
    actions = [watch.tick(1.0) for _ in range(12)]
    assert [action for action in actions if action] == ["order-stop", "kill"]
    assert actions.index("kill") - actions.index("order-stop") == 3
    assert watch.cause == "runtime"


def test_too_much_on_disk_orders_a_stop() -> None:
    watch = Watch(LIMITS)
    assert watch.tick(0.1, Use(disk_bytes=1000)) is None
    assert watch.tick(0.1, Use(disk_bytes=1001)) == "order-stop"


def test_a_second_wish_can_only_shorten_the_grace() -> None:
    watch = Watch(LIMITS)
    assert watch.stop("asked", 10) == "order-stop"
    assert watch.stop("asked", 60) is None
    assert watch.grace_s == 10
    watch.stop("asked", 1)
    assert watch.tick(1.0) == "kill"


def test_a_stop_that_comes_just_after_the_last_word_was_asked_for_all_the_same() -> None:
    watch = Watch(LIMITS)
    watch.stop("left", 10)
    assert watch.stop("asked", 30) is None
    assert (watch.cause, watch.grace_s) == ("asked", 10)
    watch.stop("left", 10)
    assert watch.cause == "asked"


@given(st.lists(st.tuples(st.sampled_from(["tick", "heard", "stop", "kill"]), st.floats(0, 30)), max_size=60))
def test_a_job_is_stopped_at_most_once_and_killed_at_most_once(steps: list[tuple[str, float]]) -> None:
    watch, actions = Watch(LIMITS), list[object]()
    for name, amount in steps:
        match name:
            case "tick":
                actions.append(watch.tick(amount))
            case "heard":
                watch.heard()
            case "stop":
                actions.append(watch.stop("asked", amount))
            case _:
                actions.append(watch.kill())
        assert watch.silent_s <= LIMITS.silence_s + MAX_STEP_S or watch.cause is not None
    done = [action for action in actions if action]
    assert done in ([], ["order-stop"], ["kill"], ["order-stop", "kill"])
    assert watch.killed == ("kill" in done)
