"""Optional questions of a pass over L1 that no provider answers: the chain goes on, and the status says so."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sources.l1.derivation.deriving import Deriving, has
from tests.sources.l1.publishing import PublishingL1
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import RejectionError

from fastnode.outgoing.health import Patience
from fastnode.sources.l1 import questions
from fastnode.sources.l1.questions import Question


@pytest.fixture(autouse=True)
def asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "PATIENCE", Patience(unavailable_s=0.0))


@pytest.mark.parametrize("has_multicall", [True, False])
def test_a_provider_without_the_state_of_the_final_block_gives_new_checkpoints(
    node: Deriving, chain: MadeChain, l1: PublishingL1, has_multicall: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def without_final_state(method: str, parameters: list[Any], result: Any) -> Any:
        """As of a node that keeps the state of the newest block, while finality is behind."""
        if method == "eth_call" and parameters[1] not in ("latest", hex(l1.head.number)):
            raise RejectionError(-32000, "missing trie node 5f1c: state is not available")
        return result

    with l1.lock:
        l1.has_multicall = has_multicall
        l1.tamper = without_final_state
        l1.mine(proven=1)
    node.pass_()
    assert has(node, chain)
    line = node.reader.troubles()["l1 finality"]
    assert line is not None
    assert line.startswith("the finalized tip does not advance: L1 node 1: missing trie node")
    failed = [record for record in caplog.records if record.msg == "L1 does not answer an optional query"]
    assert [record.facts["query"] for record in failed].count("finality") == 1  # type: ignore[attr-defined]
    l1.tamper = lambda _method, _parameters, result: result
    l1.mine(3)
    node.look()
    assert node.reader.troubles()["l1 finality"] is None


def test_each_question_has_a_line_in_the_report(node: Deriving) -> None:
    rows = node.reader.describe()["queries"]
    assert [row["query"] for row in rows] == [question.title for question in Question]
    optional = {"finality", "fees", "committees", "slasher", "committee size", "canonical rollup"}
    assert {row["query"] for row in rows if not row["primary"]} == optional
    assert set(node.reader.troubles()) == {f"l1 {name}" for name in optional}


def test_what_governance_can_change_is_read_in_each_epoch(
    node: Deriving, chain: MadeChain, l1: PublishingL1, caplog: pytest.LogCaptureFixture
) -> None:
    constants, other = chain.chain_record["l1Constants"], bytes([7]) * 20
    epoch_s = int(constants["epochDuration"]) * int(constants["slotDuration"])
    now = max(l1.head.timestamp, int(constants["l1GenesisTime"]))
    l1.clock = lambda: now
    l1.mine()
    node.pass_()
    assert node.reader.canonical.is_canonical
    with l1.lock:
        l1.committee_size, l1.canonical = 5, other
    l1.mine()
    node.look()
    assert node.reader.seen()[0].target_committee_size == 0, "it is read once an epoch"
    assert node.reader.canonical.is_canonical
    l1.clock = lambda: now + epoch_s
    l1.mine()
    node.look()
    node.look()
    assert node.reader.seen()[0].target_committee_size == 5
    assert node.reader.canonical.address == other
    changes = [record.facts for record in caplog.records if record.msg == "rollup: committee size changed"]  # type: ignore[attr-defined]
    assert changes == [{"before": 0, "size": 5}]


def test_a_single_false_reply_about_governance_changes_nothing(
    node: Deriving, chain: MadeChain, l1: PublishingL1, caplog: pytest.LogCaptureFixture
) -> None:
    constants = chain.chain_record["l1Constants"]
    now = max(l1.head.timestamp, int(constants["l1GenesisTime"]))
    l1.clock = lambda: now
    l1.mine()
    node.pass_()
    right = l1.committee_size, l1.canonical
    now += int(constants["epochDuration"]) * int(constants["slotDuration"])
    for reply in ((5, bytes([7]) * 20), (6, bytes([8]) * 20), right):
        with l1.lock:
            l1.committee_size, l1.canonical = reply
        l1.mine()
        node.pass_()
    assert node.reader.seen()[0].target_committee_size == right[0]
    assert node.reader.canonical.is_canonical
    assert not [record for record in caplog.records if record.msg.startswith("rollup: ")]
