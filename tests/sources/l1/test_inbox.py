"""Messages from L1: complete, in order, through reorgs and with providers that refuse, lag and lie."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from tests.sources.l1.scripted_l1 import ScriptedL1, scripted_l1
from tests.sources.l1.test_endpoints import CONSTANTS, NODE_INFO

from fastnode.archiver.source import CheckpointRecord
from fastnode.errors import DecodeError, UpstreamError, UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.outgoing.client import ClientLimits
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.protocol.constants import L1_TO_L2_MESSAGES_PER_CHECKPOINT
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.endpoints import L1Client, L1Endpoint
from fastnode.sources.l1.inbox import NO_MESSAGES, Anchor, Inbox, InboxState, roll, rolled

DEPLOYMENT = int(CONSTANTS["l1StartBlock"])
INBOX = bytes.fromhex(NODE_INFO["l1ContractAddresses"]["inboxAddress"][2:])


def message(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture
def l1() -> Iterator[ScriptedL1]:
    with scripted_l1(NODE_INFO, CONSTANTS) as l1:
        yield l1


@pytest.fixture
def endpoint(l1: ScriptedL1, network: Network) -> L1Endpoint:
    return L1Client([l1.url], network, limits=ClientLimits(request_time_s=10), patience=Patience()).all[0]


def refresh(inbox: Inbox, endpoint: L1Endpoint) -> None:
    head = endpoint.block("latest")
    assert head is not None
    inbox.refresh(endpoint, head, InboxState(*endpoint.read(INBOX, contracts.INBOX_STATE, block=head.number)))


def test_the_rolling_hash_is_the_one_of_the_contract() -> None:
    """Of the first two messages of a recorded network."""
    first = bytes.fromhex("0084da7627506624c64a17aa5479d06f9d043a440afa9ffcaadccae796dc5f8f")
    second = bytes.fromhex("009e6c9a60c4db22c148c01b259ce0993439e83ec33713c20c7c65d014f7cedb")
    assert roll(NO_MESSAGES, first).hex() == "5cb302ec9f223c73d4450726786ca138"
    assert rolled([first, second]).hex() == "eb14ec16f8c7cba6f1006a9cda3f8aa6"


def test_the_messages_of_the_sample_chain_roll_to_what_its_inbox_said() -> None:
    """All 16 that were sent on the recorded network, in order of their checkpoints."""
    sample = resources.files("fastnode") / "data" / "sample_chain.jsonl.xz"
    with resources.as_file(sample) as path, ChainFileSource(path) as source:
        checkpoints = [record for record in source.records() if isinstance(record, CheckpointRecord)]
        messages = [message for checkpoint in checkpoints for message in checkpoint.l1_to_l2_messages]
    assert len(messages) == 16
    assert rolled(messages).hex() == "33d4e0b1cdbe92976f8198e03e1d8cf8"


def test_messages_are_given_by_checkpoint(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1), message(2))
    l1.mine(5)
    l1.send(message(3), checkpoint=4)
    l1.advance(6)
    inbox = Inbox(INBOX, DEPLOYMENT)
    assert inbox.messages_of(2) is None
    refresh(inbox, endpoint)
    assert [inbox.messages_of(number) for number in range(1, 7)] == [
        (),
        (message(1), message(2)),
        (),
        (message(3),),
        (),
        None,
    ]
    assert inbox.count == 3


def test_messages_that_a_checkpoint_has_no_room_for_are_of_the_next_one(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    number = l1.head.in_progress
    messages = [message(value) for value in range(1, L1_TO_L2_MESSAGES_PER_CHECKPOINT + 3)]
    for begin in range(0, len(messages), 600):
        l1.send(*messages[begin : begin + 600])
    l1.advance(number + 2)
    inbox = Inbox(INBOX, DEPLOYMENT)
    refresh(inbox, endpoint)
    assert inbox.messages_of(number) == tuple(messages[:L1_TO_L2_MESSAGES_PER_CHECKPOINT])
    assert inbox.messages_of(number + 1) == tuple(messages[L1_TO_L2_MESSAGES_PER_CHECKPOINT:])


def test_a_checkpoint_that_may_get_more_messages_has_none_yet(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1))
    inbox = Inbox(INBOX, DEPLOYMENT)
    refresh(inbox, endpoint)
    assert inbox.messages_of(2) is None
    l1.send(message(2))
    l1.advance(3)
    refresh(inbox, endpoint)
    assert inbox.messages_of(2) == (message(1), message(2))


def test_logs_are_not_read_while_the_contract_has_nothing_new(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1))
    inbox = Inbox(INBOX, DEPLOYMENT)
    refresh(inbox, endpoint)
    l1.requests.clear()
    l1.mine(3)
    refresh(inbox, endpoint)
    assert "eth_getLogs" not in l1.requests


def test_ranges_are_cut_until_the_provider_grants_them(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    for number in range(40):
        l1.send(message(number), message(1000 + number))
    l1.advance(9)
    l1.limits.range_blocks, l1.limits.logs = 17, 5
    inbox = Inbox(INBOX, DEPLOYMENT)
    refresh(inbox, endpoint)
    assert inbox.count == 80
    assert inbox.messages_of(2) == tuple(message(n + k) for n in range(40) for k in (0, 1000))


def test_a_provider_that_does_not_even_grant_one_block_is_refused(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1), message(2))
    l1.limits.logs = 1
    with pytest.raises(UpstreamRejection, match="more than 1 results"):
        refresh(Inbox(INBOX, DEPLOYMENT), endpoint)


def test_logs_from_outside_the_range_and_of_others_are_passed_over(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1))
    log = l1._get_logs({**_query(l1), "fromBlock": "0x0", "toBlock": "0x10"})[0]
    strangers = [
        log | {"blockNumber": hex(1000)},
        log | {"address": "0x" + "11" * 20},
        log | {"removed": True},
        log | {"topics": ["0x" + "22" * 32]},
    ]
    l1.tamper = lambda method, _parameters, result: result + strangers if method == "eth_getLogs" else result
    inbox = Inbox(INBOX, DEPLOYMENT)
    refresh(inbox, endpoint)
    assert inbox.count == 1


def _query(l1: ScriptedL1) -> dict[str, Any]:
    return {"address": l1.addresses.inbox, "topics": [contracts.MESSAGE_SENT.topic]}


# ---- lies -------------------------------------------------------------------------------------


def _change_log(l1: ScriptedL1, place: int, **changes: Any) -> None:
    def tamper(method: str, _parameters: list[Any], result: Any) -> Any:
        if method == "eth_getLogs" and len(result) > place:
            result[place] = result[place] | changes
        return result

    l1.tamper = tamper


def _word(value: int) -> str:
    return value.to_bytes(32, "big").hex()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"topics": [contracts.MESSAGE_SENT.topic, "0x" + _word(2), "0x" + _word(99)]}, "does not continue"),
        ({"topics": [contracts.MESSAGE_SENT.topic, "0x" + _word(3), "0x" + _word(2)]}, "said to be of checkpoint 3"),
        ({"data": "0x" + _word(1025) + "ab" * 16 + "00" * 16}, "does not continue"),
        ({"data": "0x" + _word(1027) + "ab" * 16 + "00" * 16}, "does not continue"),
        ({"data": "0x" + _word(1025)}, "MessageSent"),
        ({"blockHash": "0x00"}, "no words"),
        ({"blockNumber": "5"}, "does not continue"),  # it is not on the chain
    ],
)
def test_a_false_log_is_refused_and_nothing_of_it_kept(
    l1: ScriptedL1, endpoint: L1Endpoint, changes: dict[str, Any], reason: str
) -> None:
    l1.send(message(1), message(2), message(3))
    l1.advance(3)
    _change_log(l1, 1, **changes)
    inbox = Inbox(INBOX, DEPLOYMENT)
    with pytest.raises((UpstreamFault, DecodeError), match=reason):
        refresh(inbox, endpoint)
    assert inbox.count == 0
    assert inbox.messages_of(2) is None
    l1.tamper = lambda _method, _parameters, result: result
    refresh(inbox, endpoint)
    assert inbox.messages_of(2) == (message(1), message(2), message(3))


def test_a_log_that_is_left_out_is_noticed(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    """The last one: no later rolling hash gives it away, but the contract's does."""
    l1.send(message(1), message(2))
    l1.advance(3)
    l1.tamper = lambda method, _parameters, result: result[:-1] if method == "eth_getLogs" else result
    inbox = Inbox(INBOX, DEPLOYMENT)
    for _ in range(5):
        with pytest.raises(UpstreamUnavailable, match=r"its logs give 1 messages .* its Inbox says 2"):
            refresh(inbox, endpoint)
    assert inbox.messages_of(2) is None
    l1.tamper = lambda _method, _parameters, result: result
    refresh(inbox, endpoint)
    assert inbox.messages_of(2) == (message(1), message(2))


def test_an_invented_message_at_the_end_is_noticed_and_forgotten(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1))
    l1.advance(3)

    def invent(method: str, _parameters: list[Any], result: Any) -> Any:
        if method == "eth_getLogs" and result:
            rolling = rolled([message(1), message(9)]).hex() + "00" * 16
            topics = [contracts.MESSAGE_SENT.topic, "0x" + _word(2), "0x" + _word(9)]
            result.append(result[-1] | {"topics": topics, "data": "0x" + _word(1025) + rolling, "logIndex": "0x9"})
        return result

    l1.tamper = invent
    inbox = Inbox(INBOX, DEPLOYMENT)
    with pytest.raises(UpstreamUnavailable, match="its logs give 2 messages"):
        refresh(inbox, endpoint)
    l1.tamper = lambda _method, _parameters, result: result
    refresh(inbox, endpoint)
    assert inbox.messages_of(2) == (message(1),)


def test_logs_that_come_later_than_the_state_are_waited_for(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1))
    inbox = Inbox(INBOX, DEPLOYMENT)
    refresh(inbox, endpoint)
    l1.send(message(2))
    l1.advance(3)
    l1.unindexed = 2
    for _ in range(2):
        with pytest.raises(UpstreamUnavailable):
            refresh(inbox, endpoint)
    l1.unindexed = 0
    refresh(inbox, endpoint)
    assert inbox.messages_of(2) == (message(1), message(2))


# ---- reorgs -----------------------------------------------------------------------------------


def test_messages_of_blocks_that_are_gone_are_forgotten(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1))
    l1.send(message(2))
    l1.advance(3)
    inbox = Inbox(INBOX, DEPLOYMENT)
    refresh(inbox, endpoint)
    l1.reorg(2)
    l1.send(message(7))
    l1.send(message(8))
    l1.advance(3)
    refresh(inbox, endpoint)
    assert inbox.messages_of(2) == (message(1), message(7), message(8))
    assert inbox.reorg_count == 1


def test_a_reorg_that_leaves_no_message_leaves_none(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1))
    l1.advance(3)
    inbox = Inbox(INBOX, DEPLOYMENT)
    refresh(inbox, endpoint)
    l1.reorg(2)
    l1.mine(3)
    l1.advance(3)
    refresh(inbox, endpoint)
    assert inbox.messages_of(2) == ()


def test_messages_that_come_again_in_other_blocks_stay(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    """Nothing has changed for the contract; what comes behind them is read all the same."""
    l1.send(message(1))
    inbox = Inbox(INBOX, DEPLOYMENT)
    refresh(inbox, endpoint)
    l1.reorg(1)
    l1.mine()
    l1.send(message(1))
    refresh(inbox, endpoint)
    l1.mine(2)
    refresh(inbox, endpoint)
    l1.send(message(2))
    l1.advance(3)
    refresh(inbox, endpoint)
    assert inbox.messages_of(2) == (message(1), message(2))


@pytest.mark.parametrize("seed", range(5))
def test_after_reorgs_of_any_depth_the_list_is_the_contracts(l1: ScriptedL1, endpoint: L1Endpoint, seed: int) -> None:
    choice = random.Random(seed)
    inbox = Inbox(INBOX, DEPLOYMENT)
    number = 0
    for _ in range(40):
        for _ in range(choice.randrange(4)):
            number += 1
            new = [message(number * 10 + place) for place in range(choice.randrange(1, 4))]
            l1.send(*new, checkpoint=l1.head.in_progress + choice.randrange(2))
            l1.mine(choice.randrange(3))
        if choice.random() < 0.4:
            l1.reorg(min(choice.randrange(1, 9), l1.head.number - DEPLOYMENT))
            l1.mine(choice.randrange(1, 3))
        l1.limits.range_blocks = choice.choice([1, 3, 1000])
        refresh(inbox, endpoint)
        wanted: dict[int, list[bytes]] = {}
        for item in l1.head.sent:
            wanted.setdefault(item.checkpoint, []).append(item.hash)
        for checkpoint in range(1, l1.head.in_progress):
            assert inbox.messages_of(checkpoint) == tuple(wanted.get(checkpoint, ()))
        assert inbox.messages_of(l1.head.in_progress) is None


# ---- anchors ----------------------------------------------------------------------------------


def test_a_node_with_a_chain_reads_only_what_is_behind_it(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1), message(2))
    block = l1.mine(20).number
    l1.send(message(3), checkpoint=5)
    l1.advance(7)
    queries: list[dict[str, Any]] = []
    l1.tamper = lambda method, parameters, result: (
        result if method != "eth_getLogs" else (queries.append(parameters[0]), result)[1]
    )
    inbox = Inbox(INBOX, DEPLOYMENT, Anchor(block, 3, rolled([message(1), message(2)]), 2))
    refresh(inbox, endpoint)
    assert min(int(query["fromBlock"], 16) for query in queries) == block
    assert inbox.messages_of(2) is None  # before the anchor: they are stored
    assert [inbox.messages_of(4), inbox.messages_of(5)] == [(), (message(3),)]
    assert inbox.count == 3


def test_an_anchor_that_does_not_hold_is_given_up(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    l1.send(message(1), message(2))
    block = l1.mine(20).number
    l1.send(message(3), checkpoint=5)
    l1.advance(7)
    inbox = Inbox(INBOX, DEPLOYMENT, Anchor(block, 3, bytes(15) + b"x", 2))
    for _ in range(5):
        try:
            refresh(inbox, endpoint)
        except UpstreamError:
            continue
        break
    assert [inbox.messages_of(2), inbox.messages_of(5)] == [(message(1), message(2)), (message(3),)]


def test_an_anchor_behind_which_messages_were_overlooked_is_given_up(l1: ScriptedL1, endpoint: L1Endpoint) -> None:
    """A pruned chain's messages are older than the checkpoints that take them."""
    l1.send(message(1))
    l1.send(message(2), checkpoint=5)
    block = l1.mine(20).number
    l1.advance(7)
    inbox = Inbox(INBOX, DEPLOYMENT, Anchor(block, 3, rolled([message(1)]), 1))
    for _ in range(5):
        try:
            refresh(inbox, endpoint)
        except UpstreamUnavailable:
            continue
        break
    assert inbox.messages_of(5) == (message(2),)
