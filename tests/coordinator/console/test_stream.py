"""The event stream: one notice for each change, none lost over a reconnect, and a clean end."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from coordinator.console.stream import Place, event_text, gather, read_place
from coordinator.queue.feed import Change


def events_of(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """Read server-sent events as a browser does."""
    event: dict[str, Any] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if line == "" and "data" in event:
            yield {**event, "data": json.loads(event["data"])}
            event = {}
        elif name in ("id", "event", "data"):
            event[name] = value


@pytest.mark.parametrize("text", [None, "", "g1", "g1:", ":5", "g1:x", "g1:-1", "g1:" + "9" * 30, "g1:٣"])
def test_a_place_that_makes_no_sense_is_no_place(text: str | None) -> None:
    place = read_place(text)
    assert place is None or place.epoch == ""


def test_a_place_is_read_as_it_was_written() -> None:
    assert read_place(str(Place("g3", 42))) == Place("g3", 42)


def test_changes_of_one_thing_become_one_notice_with_the_newest_facts() -> None:
    changes = [
        Change(1, "worker", "w", 0.0, {"a": 1}),
        Change(2, "job", "j", 0.0, {}),
        Change(3, "worker", "w", 0.0, {"a": 2}),
    ]
    assert [(notice["kind"], notice["version"], notice["detail"]) for notice in gather(changes)] == [
        ("job", 2, {}),
        ("worker", 3, {"a": 2}),
    ]


def test_an_event_is_one_line_of_data_whatever_it_says() -> None:
    text = event_text("changes", Place("g1", 3), {"text": "a\nb\r\n: c"})
    assert text.count("\n") == 4
    assert text.endswith("\n\n")


def test_nobody_follows_without_being_signed_in(coordinator: Any) -> None:
    answer = httpx.get(f"{coordinator.url}/v1/stream", trust_env=False)
    assert answer.status_code == 401
    assert answer.json()["code"] == "not-signed-in"


def test_a_change_arrives_and_a_reader_who_comes_back_misses_none(coordinator: Any, ada: Any, client: Any) -> None:
    worker = coordinator.worker(ada)
    with client.stream("GET", "/v1/stream") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        events = events_of(response)
        hello = next(events)
        assert hello["event"] == "hello"
        ada.send("POST", f"/v1/workers/{worker.worker_id}/drain", {})
        change = next(event for event in events if event["event"] == "changes")
    notices = change["data"]["items"]
    assert ("worker", worker.worker_id) in {(notice["kind"], notice["id"]) for notice in notices}
    ada.send("POST", f"/v1/workers/{worker.worker_id}/resume", {})
    with client.stream("GET", "/v1/stream", headers={"Last-Event-ID": change["id"]}) as response:
        events = events_of(response)
        assert next(events)["event"] == "hello"
        missed = next(event for event in events if event["event"] == "changes")
    assert int(missed["id"].split(":")[1]) > int(change["id"].split(":")[1])


def test_a_place_of_another_database_is_told_to_fetch_everything(client: Any) -> None:
    with client.stream("GET", "/v1/stream?cursor=another:7") as response:
        events = events_of(response)
        assert [next(events)["event"], next(events)["event"]] == ["hello", "resync"]


def test_asking_for_the_head_of_the_stream_leaves_the_connection_free(coordinator: Any, client: Any) -> None:
    with httpx.Client(base_url=coordinator.url, trust_env=False, cookies=dict(client.cookies), timeout=5) as browser:
        head = browser.head("/v1/stream")
        assert (head.status_code, head.content) == (200, b"")
        assert browser.get("/workers").status_code == 200


def test_a_reader_who_left_frees_its_place(coordinator: Any, client: Any) -> None:
    app_state = coordinator.services
    for _ in range(20):
        with client.stream("GET", "/v1/stream") as response:
            next(events_of(response))
    deadline = time.monotonic() + 10
    while app_state.queue.feed._watchers and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not app_state.queue.feed._watchers


def test_the_coordinator_ends_within_five_seconds_with_a_stream_open(start_coordinator: Any, sign_in: Any) -> None:
    live = start_coordinator()
    read: list[str] = []

    def follow() -> None:
        with sign_in(live.url) as person, person.stream("GET", "/v1/stream") as response:
            read.extend(event["event"] for event in events_of(response))

    follower = threading.Thread(target=follow)
    follower.start()
    deadline = time.monotonic() + 10
    while not live.services.queue.feed._watchers and time.monotonic() < deadline:
        time.sleep(0.02)
    began = time.monotonic()
    live.close()
    took_s = time.monotonic() - began
    follower.join(10)
    assert not follower.is_alive()
    assert read[0] == "hello"
    assert took_s < 5
