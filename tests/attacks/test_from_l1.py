"""Whole nodes behind an L1 on which anybody has published anything: they skip what the network skips, and go on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coincurve import PrivateKey
from tests.attacks import hasty_node
from tests.attacks.conftest import Attacked
from tests.mutated_answers import HEADERS, Mutator
from tests.sources.l1.derivation import test_hostile_checkpoints as hostile
from tests.sources.l1.derivation.attesting import sign
from tests.sources.l1.derivation.test_finality import calling_final
from tests.sources.l1.publishing import PublishingL1, multicall_data, publish
from tests.sources.made_chain import MadeChain

from fastnode.sources.l1.propose_calls import MULTICALL3

#: Forms of v that contracts refuse, by what they make of 27 and 28; and a signature with a high s.
FORMS = {
    "v 0 or 1": hostile.with_v(lambda v: v - 27),
    "the other v": hostile.with_v(lambda v: 55 - v),
    "v 26": hostile.with_v(lambda _: 26),
    "v 29": hostile.with_v(lambda _: 29),
    "v 255": hostile.with_v(lambda _: 255),
    "high s": hostile.with_high_s,
}


def test_signatures_that_contracts_refuse(
    attacked: Attacked, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    """Published nodes and L1 count 27 and 28 alone, and no high s."""
    hostile.publish_attested(chain, attested, committee, range(2))
    node = attacked(attested)
    for bent in FORMS.values():
        sheet = hostile.next_sheet(chain, attested, 2)
        sign(sheet, committee, (0, 1, 2, 3), bent)
        attested.publish(sheet)
        node.wait_for_reason("checkpoint 3 on L1 is not valid")
        assert node.ask("node_getL2Tips")["checkpointed"]["checkpoint"]["number"] == 2
        attested.prune_to(2)
        node.wait(lambda: not node.wrong())
    hostile.publish_attested(chain, attested, committee, range(2, 3))
    node.wait_for(chain)
    node.stop()


def test_a_checkpoint_that_was_refused_and_comes_again_with_good_attestations(
    attacked: Attacked, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    """In the next block of L1 without a look between, or beside others in one block."""
    hostile.publish_attested(chain, attested, committee, range(2))
    bad, good = hostile.signed_sheets(chain, attested, committee, 2)
    node = attacked(attested)
    attested.publish(bad)
    node.wait_for_reason("2 of 4 have signed, 3 are needed")
    with attested.lock:
        attested.publish(good)
    node.wait_for(chain)
    with attested.lock:
        attested.reorg(1)
        attested.mine(2)
    node.wait_for_reason("2 of 4 have signed, 3 are needed")
    with attested.lock:
        attested.reorg(3)
        attested.mine(3)
        hostile.propose_together(attested, bad, good)
    node.wait_for(chain)
    attacked(attested, "late").wait_for(chain)
    node.stop()


def test_logs_that_do_not_decode(
    attacked: Attacked, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    """Seven blobs, and texts that no proposal could bring: taken back at once, they keep no new node from deriving."""
    hostile.publish_attested(chain, attested, committee, range(2))
    seven = hostile.next_sheet(chain, attested, 2)
    hostile.with_seven_blobs(seven)
    other = replace(seven.transaction(), archive=b"\7" * 32)
    node = attacked(attested)
    with attested.lock:
        attested.mine(proposals=(other,), archives=(*attested.head.archives, other.archive))
        attested.prune_to(2)
        for data in ("0x", "0x01", "0x" + "ff" * 128, "0x" + "00" * 31 + "60" + "00" * 128):
            attested.mine(proposals=(replace(other, event=data),))
    hostile.publish_attested(chain, attested, committee, range(2, 3))
    node.wait_for(chain)
    attacked(attested, "late").wait_for(chain)
    node.stop()


def test_proposals_behind_many_and_nested_calls(
    attacked: Attacked, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    """Thousands of calls need no trace; 120 kB of calls in calls are looked at once and cost nobody the chain."""
    hostile.publish_attested(chain, attested, committee, range(2))
    node = attacked(attested)
    sheet = hostile.next_sheet(chain, attested, 2)
    sign(sheet, committee, (0, 1, 2))
    many = [(bytes(19) + b"\4", b"")] * 700 + [(attested.rollup, b"")] * 300 + [(attested.rollup, sheet.call_data)]
    wrapped = multicall_data([(MULTICALL3, multicall_data(many))])
    attested.publish(sheet, sheet.transaction(MULTICALL3, wrapped))
    node.wait_for(chain)
    chain.checkpoint(1)
    sheet = hostile.next_sheet(chain, attested, 3)
    sign(sheet, committee, (0, 1, 2))
    deep = multicall_data([(attested.rollup, sheet.call_data)])
    while len(deep) < 120_000:
        deep = multicall_data([(MULTICALL3, deep), (MULTICALL3, b"\x82\xad\x56\xcb")] + [(MULTICALL3, b"")] * 8)
    attested.publish(sheet, sheet.transaction(MULTICALL3, deep))
    node.wait_for(chain)
    node.stop()


def test_refused_checkpoints_with_any_content(
    attacked: Attacked, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    """Attestations are judged first: it is known as invalid, whatever its blobs and header say, and no provider is
    blamed."""
    hostile.publish_attested(chain, attested, committee, range(2))
    node = attacked(attested)
    bends = (
        *(hostile.with_seven_blobs, hostile.with_blobs_of_nothing, hostile.with_a_zero, hostile.with_a_total_too_small),
        *(hostile.with_roots_above_the_modulus, hostile.with_blobs_of_another, hostile.without_its_blobs),
    )
    for bend in bends:
        sheet = hostile.next_sheet(chain, attested, 2)
        bend(sheet)
        sign(sheet, committee, (1, 3))
        attested.publish(sheet)
        node.wait_for_reason("checkpoint 3 on L1 is not valid: 2 of 4 have signed, 3 are needed")
        assert "l1" not in node.wrong(), "nobody but the proposer is to blame"
        attested.prune_to(2)
        node.wait(lambda: not node.wrong())
    hostile.publish_attested(chain, attested, committee, range(2, 3))
    node.wait_for(chain)
    node.stop()


def test_finality_from_one_lying_answer(attacked: Attacked, chain: MadeChain, l1: PublishingL1) -> None:
    """What is not proven is not final; what was called final wrongly is given up without an operator."""
    node = attacked(l1, module=hasty_node.MODULE, PYTHONPATH=hasty_node.ROOT)
    node.wait_for(chain)
    l1.tamper = calling_final(3)
    for proven in (1, 2):
        l1.mine(proven=proven)
        node.wait(lambda proven=proven: node.ask("node_getL2Tips")["proven"]["checkpoint"]["number"] == proven)
    # Who calls final what is not proven is believed nothing.
    assert node.ask("node_getL2Tips")["finalized"]["checkpoint"]["number"] == 0
    l1.mine(proven=3)
    l1.mine()
    node.wait(lambda: node.ask("node_getL2Tips")["finalized"]["checkpoint"]["number"] == 3)
    with l1.lock:
        l1.tamper = lambda method, parameters, result: result
        first = next(block.number for block in l1.blocks if block.pending == 3)
        l1.reorg(len(l1.blocks) - first)
        chain.undo_to(chain.units[1].blocks[-1].number)
        chain.checkpoint(2)
        publish(l1, chain.units[-1])
    node.wait_for_reason("L1 has another checkpoint 3 than the final one")
    l1.mine()
    node.wait_for(chain)
    assert node.ask("node_getL2Tips")["finalized"]["checkpoint"]["number"] < 3
    chain.checkpoint(1)
    publish(l1, chain.units[-1])
    node.wait_for(chain)
    node.stop()


#: Values that have ended a reader: years and zones, hosts that are none.
ENDING = [(name, value) for name in (b"Retry-After", b"Location") for value in HEADERS[name]]


class Sender(Mutator):
    """Answers that say nothing, with each of those headers in turn."""

    def __init__(self) -> None:
        super().__init__(1, share=1.0)
        self.places = iter(range(10**9))

    def response(self, body: bytes) -> bytes:
        place = next(self.places)
        name, value = ENDING[place % len(ENDING)]
        status = (302, 429, 503)[place // len(ENDING) % 3]
        return b"HTTP/1.1 %d no\r\nContent-Length: 4\r\n%b: %b\r\n\r\nbusy" % (status, name, value)


@pytest.mark.parametrize("place", ["L1", "blobs"])
def test_headers_of_answers(attacked: Attacked, chain: MadeChain, l1: PublishingL1, place: str) -> None:
    """No header ends the process or its reader: it is said what is not read, and read again when it behaves."""
    node = attacked(l1, "on", "--l1-timeout-s=2", module=hasty_node.MODULE, PYTHONPATH=hasty_node.ROOT)
    node.wait_for(chain)
    sender = Sender()
    with l1.lock, l1.beacon.lock:
        chain.checkpoint(1)
        publish(l1, chain.units[-1])
        if place == "L1":
            l1.disturb = sender.disturb(l1.answer)
        else:
            l1.beacon.disturb = sender
    node.wait(lambda: sender.count >= 2 * len(ENDING))
    node.wait(node.wrong)
    l1.disturb, l1.beacon.disturb = lambda *_: False, None
    node.wait_for(chain)
    node.stop()
