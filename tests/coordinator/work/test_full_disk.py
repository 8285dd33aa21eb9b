"""On a full disk the coordinator refuses what it cannot keep, changes nothing by halves, and recovers by itself."""

import errno

import pytest

from tests.faults.sources import SmallDisk


class FullDisk:
    """A small volume under a coordinator's data, or, where none can be mounted, faults like those of a full one."""

    def __init__(self, folder):
        self.small = SmallDisk(folder, 24)
        if not self.small.mounted:
            folder.rmdir()
        self.full = False

    def watch(self, live):
        files = live.services.queue.artifacts.files
        files.has_room = lambda _size: True  # the reserve is larger than this disk
        if not self.small.mounted:
            honest = files.write_chunk

            def write_chunk(*arguments):
                if self.full:
                    raise OSError(errno.ENOSPC, "No space left on device")
                honest(*arguments)

            files.write_chunk = write_chunk
        self._live = live

    def fill(self):
        self.full = True
        if self.small.mounted:
            self.small.fill()
        else:
            self._bound(1)

    def empty(self):
        self.full = False
        if self.small.mounted:
            self.small.empty()
        else:
            self._bound(1 << 30)

    def _bound(self, pages):
        act = self._live.services.db.write(
            lambda conn: conn.exec_driver_sql(f"PRAGMA max_page_count = {pages}").scalar()
        )
        self._live.do(act)


@pytest.fixture
def disk(tmp_path):
    made = FullDisk(tmp_path / "coordinator")
    yield made
    made.small.close()


def test_a_full_disk_is_said_changes_nothing_and_is_over_when_there_is_room(disk, start_coordinator, hand_of, caplog):
    live = start_coordinator()
    if disk.small.mounted:
        live.account("ada@example.org")
    disk.watch(live)
    hand = hand_of(live.person("ada@example.org"))
    worker = live.worker(hand.person)
    hand.submit()
    grant = hand.take(worker)
    data = bytes(64 * 1024)
    upload_id = hand.announce(worker, grant, data).json()["upload"]["id"]
    lines = [hand.log_line("x" * 8000) for _ in range(20)]

    disk.fill()
    # Pages that are free in the database already may take a first few.
    answers = (hand.events(worker, grant, 20 * number, lines) for number in range(60))
    refused = next(answer for answer in answers if answer.status_code != 200)
    assert (refused.status_code, refused.json()["code"]) == (507, "disk-full")
    assert refused.json()["retryable"]
    assert refused.json()["action"] == "retry"
    assert int(refused.headers["Retry-After"]) > 0
    chunk = hand.patch(worker, upload_id, 0, data)
    assert (chunk.status_code, chunk.json()["code"]) == (507, "disk-full")
    assert worker.call("HEAD", f"/v1/uploads/{upload_id}").headers["Upload-Offset"] == "0"
    assert hand.person.send("GET", "/v1/jobs?state=running").status_code == 200
    assert "Traceback" not in caplog.text

    disk.empty()
    stands = hand.events(worker, grant, 0, []).json()["next_seq"]
    assert stands % 20 == 0
    assert hand.events(worker, grant, stands, lines).json() == {"next_seq": stands + 20}
    assert hand.patch(worker, upload_id, 0, data).status_code == 204
    assert hand.finish(worker, upload_id, data).status_code == 200
    assert hand.complete(worker, grant, stands + 20).status_code == 200
    assert hand.job(grant.job_id)["state"] == "succeeded"
