"""Parked polls: gone clients are noticed, one job wakes one poll, and a stop answers all."""

import json
import socket
import threading
import time


def open_poll(worker, hand):
    """Open a poll and do not wait for its answer."""
    hand.poll(worker, 0)
    body = json.dumps({"free_slots": 1, "wait": 20, "observed": worker.seen}).encode()
    host, port = worker.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    head = (
        f"POST /v1/poll HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Authorization: DPoP {worker.token}\r\nDPoP: {worker.proof('POST', '/v1/poll', worker.token)}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def eventually(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_a_client_that_hangs_up_is_forgotten_at_once(hand, worker, coordinator):
    parked = coordinator.services.queue.parked
    before = len(parked)
    with open_poll(worker, hand):
        eventually(lambda: len(parked) == before + 1)
    left = time.monotonic()
    eventually(lambda: len(parked) == before)
    assert time.monotonic() - left < 3.0


def test_one_job_wakes_one_poll(hand, worker, other_worker):
    for each in (worker, other_worker):
        hand.poll(each, 0)
    offers = []
    threads = [threading.Thread(target=lambda w=w: offers.append(hand.offer(w, 2))) for w in (worker, other_worker)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    hand.submit()
    for thread in threads:
        thread.join(20)
    assert sum(offer is not None for offer in offers) == 1


def test_the_end_of_the_coordinator_answers_all_polls(start_coordinator, hand_of):
    coordinator = start_coordinator()
    hand = hand_of(coordinator.person("ada@example.org"))
    workers = [coordinator.worker(hand.person) for _ in range(3)]
    answers = []
    for worker in workers:
        hand.poll(worker, 0)
    threads = [threading.Thread(target=lambda w=w: answers.append(hand.poll(w, 25))) for w in workers]
    for thread in threads:
        thread.start()
    eventually(lambda: len(coordinator.services.queue.parked) == 3)
    asked = time.monotonic()
    coordinator.close()
    for thread in threads:
        thread.join(20)
    assert [answer.status_code for answer in answers] == [204, 204, 204]
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    assert time.monotonic() - asked < 5.0
