"""What a worker keeps about its connections always names the start that the coordinator may hold as current."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_coordinator import ScriptedCoordinator

from worker_core.journal.journal import Journal
from worker_core.link.address import Address
from worker_core.link.client import CoordinatorClient
from worker_core.link.exchange import Exchanger
from worker_core.link.faults import TransportFault
from worker_core.link.identity import WorkerKey
from worker_core.link.session import Connection, ConnectionRecord, load_record
from worker_core.machine.clocks import SystemClock
from worker_core.wire.codec import decode, encode
from worker_core.wire.session import Parameters, SessionRequest

NEVER_SENT, REQUEST_LOST, REPLY_LOST, ANSWERED = range(4)
REQUEST = SessionRequest(worker_id="wrk", instance_id="", session_seq=0, boot_id="boot", version="0.1.0")


@given(st.lists(st.sampled_from((NEVER_SENT, REQUEST_LOST, REPLY_LOST, ANSWERED)), max_size=30))
def test_the_list_holds_the_coordinators_current_start_whatever_was_lost(fates: list[int]) -> None:
    record, current = ConnectionRecord(), None
    for number, fate in enumerate(fates):
        start = f"start-{number}"
        record = decode(encode(record.announce(start)), ConnectionRecord)
        assert len(record.previous(start)) <= 32
        if fate == NEVER_SENT:
            record = record.withdraw(start)
            continue
        assert current is None or current in record.previous(start)
        if fate != REQUEST_LOST:
            current = start
        if fate == ANSWERED:
            record = record.confirm(start, number)


def test_a_hundred_starts_without_a_network_push_nothing_out() -> None:
    record = ConnectionRecord().announce("known").confirm("known", 1).announce("perhaps-seen")
    for number in range(100):
        record = record.announce(f"start-{number}").withdraw(f"start-{number}")
    assert record.previous("newest") == ("known", "perhaps-seen")


async def test_a_start_that_could_not_be_sent_leaves_no_trace_and_one_that_may_have_been_does(journal: Journal) -> None:
    nobody = Exchanger(Address.parse("http://127.0.0.1:9"), WorkerKey.generate(), SystemClock())
    connection = Connection(CoordinatorClient(nobody), journal)
    with pytest.raises(TransportFault):
        await connection.open(REQUEST)
    assert load_record(journal) == ConnectionRecord()
    await nobody.close()


async def test_a_start_whose_answer_was_not_ours_stays_on_the_list(
    client: CoordinatorClient, coordinator: ScriptedCoordinator, journal: Journal
) -> None:
    connection = Connection(client, journal)
    coordinator.gen = -1  # no generation that counts: the answer is a stranger's
    with pytest.raises(TransportFault):
        await connection.open(REQUEST)
    assert load_record(journal).unconfirmed == (connection.instance_id,)
    coordinator.gen = 3
    await connection.open(REQUEST)
    assert load_record(journal).confirmed == connection.instance_id


@pytest.mark.parametrize("intervals", [{"poll_wait_s": 0.0}, {"token_refresh_to_s": 0.01}, {"events_flush_s": -1.0}])
async def test_intervals_at_which_a_worker_would_spin_are_not_followed(
    client: CoordinatorClient, coordinator: ScriptedCoordinator, journal: Journal, intervals: dict[str, float]
) -> None:
    connection = Connection(client, journal)
    coordinator.params = msgspec.structs.replace(coordinator.params, **intervals)
    with pytest.raises(TransportFault, match=next(iter(intervals))):
        await connection.open(REQUEST)
    assert connection.params == Parameters()
