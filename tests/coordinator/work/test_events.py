"""Events arrive in order, once, whatever the network and the sender do to them."""

import gzip
import json

import pytest


@pytest.fixture
def grant(hand, worker):
    hand.submit()
    return hand.take(worker)


def test_a_repeated_batch_is_dropped_and_a_hole_is_refused(hand, worker, grant, ada):
    first = [hand.metric(step, loss=float(step)) for step in range(5)]
    assert hand.events(worker, grant, 0, first).json() == {"next_seq": 5}
    assert hand.events(worker, grant, 0, first).json() == {"next_seq": 5}
    assert hand.events(worker, grant, 3, [*first[3:], hand.metric(5, loss=5.0)]).json() == {"next_seq": 6}
    hole = hand.events(worker, grant, 8, first)
    assert (hole.status_code, hole.json()["code"], hole.json()["next_seq"]) == (409, "event-gap", 6)
    assert hand.events(worker, grant, 6, []).json() == {"next_seq": 6}
    page = ada.send("GET", f"/v1/attempts/{grant.id}/events?after_seq=3").json()
    assert [item["seq"] for item in page["items"]] == [4, 5]


def test_a_bad_event_is_named_by_its_place_and_nothing_of_the_batch_is_kept(hand, worker, grant):
    bad = {"t": "m", "ts": 1.0, "step": -1, "values": {}}
    refused = hand.events(worker, grant, 0, [hand.metric(1, a=1.0), bad, hand.metric(2, a=1.0)])
    assert (refused.status_code, refused.json()["code"], refused.json()["index"]) == (422, "bad-event", 1)
    assert hand.events(worker, grant, 0, []).json() == {"next_seq": 0}


def test_a_line_longer_than_8_kib_is_a_bad_event(hand, worker, grant):
    assert hand.events(worker, grant, 0, [hand.log_line("é" * 4096)]).json() == {"next_seq": 1}
    refused = hand.events(worker, grant, 1, [hand.log_line("short"), hand.log_line("é" * 4097)])
    assert (refused.status_code, refused.json()["code"], refused.json()["index"]) == (422, "bad-event", 1)


def test_an_event_at_the_edge_of_what_numbers_hold_holds_nothing_up(hand, worker, grant, ada):
    edge = [hand.metric(2**63 - 1, a=1.0), {"t": "l", "ts": 1e300, "stream": "stdout", "text": "x"}]
    assert hand.events(worker, grant, 0, edge).json() == {"next_seq": 2}
    assert ada.send("GET", f"/v1/jobs/{grant.job_id}/logs").json()["items"][0]["ts"] == 1e300
    report = {"epoch": grant.epoch, "outcome": "succeeded", "final_seq": 2, "exit": 2**70}
    refused = worker.call("POST", f"/v1/attempts/{grant.id}/complete", report)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-request")


@pytest.mark.parametrize("cursor", ["x", "1", "1.", "1.2.3", f"{10**30}.0", f"1.{10**30}", "1.-2", "²."])
def test_a_cursor_that_is_not_ours_is_refused(grant, ada, cursor):
    for what in ("logs", "metrics"):
        refused = ada.http.get(f"/v1/jobs/{grant.job_id}/{what}", params={"after": cursor})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid-request")


def test_numbers_no_double_can_hold_do_not_spoil_their_neighbours(hand, worker, grant, ada):
    body = json.dumps(
        {
            "epoch": grant.epoch,
            "first_seq": 0,
            "events": [hand.metric(1, nan="NaN", low="-Infinity", fine=1.5), hand.metric(2, huge=0)],
        }
    )
    body = body.replace('"huge": 0', '"huge": 1e400, "big": ' + str(2**80))
    assert hand.events(worker, grant, 0, [], body=gzip.compress(body.encode())).json() == {"next_seq": 2}
    points = ada.send("GET", f"/v1/jobs/{grant.job_id}/metrics").json()["items"]
    values = {point["name"]: point["value"] for point in points}
    assert values == {"nan": "NaN", "low": "-Infinity", "fine": 1.5, "huge": "Infinity", "big": 2.0**80}
    (head,) = [
        h for h in ada.send("GET", f"/v1/jobs/{grant.job_id}/metrics/names").json()["items"] if h["name"] == "nan"
    ]
    assert (head["last"], head["low"], head["non_finite"]) == ("NaN", None, 1)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"<html>Please sign in</html>", 400, "invalid-request"),
        (gzip.compress(b"<html>Please sign in</html>"), 400, "invalid-request"),
        (gzip.compress(b'{"epoch":1,"first_seq":0,"events":[]}' * 99)[:-20], 400, "invalid-request"),
        (gzip.compress(b'{"epoch":1}'), 400, "invalid-request"),
        (gzip.compress(b" " * (200 << 20)), 413, "too-large"),
        (gzip.compress(b"[" * 100_000), 400, "invalid-request"),
    ],
    ids=["html", "packed html", "cut short", "no events", "bomb", "deep"],
)
def test_garbage_is_refused_in_words(hand, worker, grant, body, status, code):
    refused = hand.events(worker, grant, 0, [], body=body)
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.headers["stoker-gen"] == "1"


def test_a_wrong_epoch_and_a_strangers_attempt_are_refused(hand, worker, grant, other_worker):
    grant.epoch = 7
    assert hand.events(worker, grant, 0, []).json()["code"] == "lease-superseded"
    grant.epoch = 1
    assert hand.events(other_worker, grant, 0, []).status_code == 404


def test_a_completion_waits_for_all_events_and_is_replayed(hand, worker, grant):
    hand.events(worker, grant, 0, [hand.metric(1, a=1.0)])
    early = hand.complete(worker, grant, 3)
    assert (early.json()["code"], early.json()["next_seq"]) == ("events-missing", 1)
    assert hand.complete(worker, grant, 0).json()["code"] == "invalid-request"
    assert hand.complete(worker, grant, 1).json() == {"recorded": "succeeded"}
    assert hand.complete(worker, grant, 1).json() == {"recorded": "succeeded"}
    other = hand.complete(worker, grant, 1, exit=3)
    assert (other.status_code, other.json()["code"]) == (409, "already-completed")
    assert hand.verdict(worker, grant) == "superseded"


def test_a_late_heartbeat_does_not_turn_progress_back(hand, worker, grant, coordinator):
    hand.beat(worker, grant, 2, step=200, pct=0.5)
    hand.beat(worker, grant, 1, step=100, pct=0.25)
    coordinator.do(coordinator.services.queue.leases.flush())
    assert hand.job(grant.job_id)["step"] == 200


def test_logs_are_read_forward_and_backward(hand, worker, grant, ada):
    lines = [hand.log_line(f"line {number}") for number in range(10)]
    dropped = {"t": "dropped", "ts": 3.0, "what": "lines", "count": 4, "reason": "too many"}
    hand.events(worker, grant, 0, [*lines, hand.metric(1, a=1.0), dropped])
    path = f"/v1/jobs/{grant.job_id}/logs"
    page = ada.send("GET", f"{path}?limit=4").json()
    assert [line["text"] for line in page["items"]] == ["line 0", "line 1", "line 2", "line 3"]
    rest = ada.send("GET", f"{path}?after={page['next']}").json()
    assert [line["text"] for line in rest["items"]][-2:] == ["line 9", "4 lines left out: too many"]
    assert rest["done"] is False
    tail = ada.send("GET", f"{path}?tail=3").json()
    assert [line["text"] for line in tail["items"]][:2] == ["line 8", "line 9"]
    before = ada.send("GET", f"{path}?tail=2&before={tail['earlier']}").json()
    assert [line["text"] for line in before["items"]] == ["line 6", "line 7"]
    assert ada.send("GET", f"{path}?after=x").json()["code"] == "invalid-request"


def test_points_stream_to_their_end(hand, worker, grant, ada):
    hand.events(worker, grant, 0, [hand.metric(step, loss=step / 2, lr=0.1) for step in range(5)])
    path = f"/v1/jobs/{grant.job_id}/metrics"
    page = ada.send("GET", f"{path}?key=loss&limit=3").json()
    assert [point["step"] for point in page["items"]] == [0, 1, 2]
    assert page["items"][0] == {"name": "loss", "step": 0, "value": 0.0, "attempt": 1, "time": 1.0}
    rest = ada.send("GET", f"{path}?key=loss&after={page['next']}").json()
    assert ([point["step"] for point in rest["items"]], rest["done"]) == ([3, 4], False)
    hand.complete(worker, grant, 5)
    assert ada.send("GET", f"{path}?after={rest['next']}").json()["done"] is True
    chart = ada.send("GET", f"{path}?key=loss&points=2").json()
    assert ([bucket["count"] for bucket in chart["points"]], chart["exact"], chart["total"]) == ([3, 2], False, 5)


def test_a_marker_takes_the_numbers_of_the_events_it_stands_for(hand, worker, grant, ada):
    lines = [hand.log_line(str(number)) for number in range(10)]
    assert hand.events(worker, grant, 0, lines[:4]).json() == {"next_seq": 4}
    # Thinned on the workstation after the first four had arrived, whose answer was lost.
    marker = {"t": "dropped", "ts": 1.0, "what": "log lines", "count": 8, "reason": "full", "seqs": 8}
    assert hand.events(worker, grant, 0, [marker, *lines[8:]]).json() == {"next_seq": 10}
    items = ada.send("GET", f"/v1/attempts/{grant.id}/events?after_seq=-1").json()["items"]
    assert [item["seq"] for item in items] == [0, 1, 2, 3, 4, 8, 9]
    assert (items[4]["event"]["count"], items[4]["event"]["seqs"]) == (4, 4)
    assert hand.events(worker, grant, 0, [marker]).json() == {"next_seq": 10}
    assert hand.complete(worker, grant, 10).status_code == 200


def test_a_marker_cannot_claim_endless_numbers(hand, worker, grant):
    marker = {"t": "dropped", "ts": 1.0, "what": "log lines", "count": 1, "reason": "full", "seqs": 2**41}
    refused = hand.events(worker, grant, 0, [marker])
    assert (refused.status_code, refused.json()["code"]) == (422, "bad-event")


def test_old_output_goes_and_metrics_stay(hand, worker, grant, ada, coordinator):
    hand.events(worker, grant, 0, [hand.metric(1, loss=1.0), hand.log_line("old")])
    hand.complete(worker, grant, 2)
    coordinator.do(coordinator.services.queue._reaper.keep_house())
    path = f"/v1/attempts/{grant.id}/events?after_seq=-1"
    assert len(ada.send("GET", path).json()["items"]) == 2
    coordinator.forward(91 * 86400)
    coordinator.do(coordinator.services.queue._reaper.keep_house())
    assert [item["event"]["t"] for item in ada.send("GET", path).json()["items"]] == ["m"]
