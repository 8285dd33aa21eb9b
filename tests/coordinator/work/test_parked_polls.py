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


def test_a_poll_whose_offer_vanished_is_offered_the_next_job(hand, worker, coordinator):
    parked = coordinator.services.queue.parked
    hand.poll(worker, 0)
    offers = []
    waiting = threading.Thread(target=lambda: offers.append(hand.offer(worker, 20)))
    waiting.start()
    eventually(lambda: worker.worker_id in parked._polls)
    time.sleep(0.3)

    async def wake_for_nothing():
        poll = parked._polls[worker.worker_id]
        poll.offered = "att_" + "0" * 32
        poll.wake()

    coordinator.do(wake_for_nothing())
    time.sleep(0.3)
    asked = time.monotonic()
    job_id = hand.submit()
    waiting.join(25)
    assert offers[0]["job_id"] == job_id
    assert time.monotonic() - asked < 5.0
