"""What happens to the blobs of a checkpoint on its way to L1."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.errors import CallReverted, SlotLost
from fastnode.publishing.envelope import BlobBundle, SidecarForm
from fastnode.publishing.multicall import Call
from fastnode.publishing.requests import Outcome, OutcomeKind, Request, Success
from fastnode.sequencing.l1_publication import L1Publication

#: For what happens in other threads.
PATIENCE_S = 60.0
BLOBS, COMMITMENTS = [b"\1" * 131_072], (b"\2" * 48,)


class Way:
    """To an L1 that takes everything; what was done, in its order."""

    def __init__(
        self, forwarder: bytes | None = None, *, form: SidecarForm = SidecarForm.EIP_4844, **options: Any
    ) -> None:
        self.done: list[str] = []
        self.sent: list[Request] = []
        self.keeper: threading.Thread | None = None
        self.failure: OSError | None = None
        self.may_keep, self.is_refused = threading.Event(), False
        self.may_keep.set()
        account = SimpleNamespace(address=bytes(20), publish=self._publish, sidecar_form=lambda: form)
        simulator = SimpleNamespace(simulate=self._simulate, blob_gas=lambda *_: 1)
        publishers: Any = SimpleNamespace(choose=lambda _allowed: account, simulator=simulator, all=(account,))
        facts: Any = SimpleNamespace(rollup=bytes(20), start_of_slot=lambda slot: 36 * slot)
        self.publication = L1Publication(
            publishers,
            lambda: facts,
            allowed=lambda _attester: None,
            sign=lambda *_: b"",
            hand_on=lambda blobs: self.done.append(f"handed on {len(blobs)}"),
            keep=self._keep,
            forwarder=forwarder,
            **options,
        )

    def _keep(self, blobs: Any, commitments: Any) -> None:
        self.keeper = threading.current_thread()
        assert (blobs, commitments) == (BLOBS, COMMITMENTS)
        assert self.may_keep.wait(10)
        if self.failure is not None:
            raise self.failure
        self.done.append("kept")

    def _simulate(self, *_parts: Any, **_more: Any) -> Any:
        self.may_keep.set()  # the disk may be slower than L1's answers
        if self.is_refused:
            raise CallReverted("it is refused", "")
        return SimpleNamespace(gas_used=1_000_000)

    def _publish(self, request: Any) -> Outcome:
        self.done.append("sent")
        self.sent.append(request)
        return Outcome(kind=OutcomeKind.PUBLISHED, block_number=7, tx_hash="0x1")

    def propose(self) -> int:
        call: Any = SimpleNamespace(
            commitments=COMMITMENTS,
            call_data=lambda: b"",
            archive_root=bytes(32),
            header=SimpleNamespace(timestamp=36),
        )
        published = self.publication.propose(call, BLOBS, slot=1, checkpoint=1, attester=None, at=36, not_after=68)
        return published.block_number

    def cast(self) -> None:
        votes = [Call(bytes(20), b"a vote", 1)]
        self.publication.cast(votes, Success(bytes(20), ()), slot=1, attester=None, not_after=68)


def test_blobs_are_kept_by_a_thread_of_its_own_before_they_are_sent() -> None:
    way = Way()
    way.may_keep.clear()  # until L1 has answered: nobody waits for the disk before
    assert way.propose() == 7
    assert way.done[-1] == "sent"
    assert sorted(way.done[:-1]) == ["handed on 1", "kept"]
    assert way.keeper is not threading.current_thread()


@pytest.mark.parametrize("form", list(SidecarForm))
def test_proofs_of_cells_are_made_while_attestations_are_waited_for(
    form: SidecarForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, proven = Way(form=form), threading.Event()
    monkeypatch.setattr(BlobBundle, "proofs", lambda *_: proven.set())
    way.publication.prepare(BLOBS, COMMITMENTS)
    assert proven.wait(PATIENCE_S if form is SidecarForm.EIP_7594 else 0) is (form is SidecarForm.EIP_7594)
    prepared = way.publication._prepared
    way.propose()
    assert prepared is None or way.sent[0].bundle is prepared
    way.propose()  # another one, which was not prepared
    assert way.sent[1].bundle is not way.sent[0].bundle


def test_what_cannot_be_kept_is_not_sent() -> None:
    way = Way()
    way.failure = OSError(28, "No space left on device")
    with pytest.raises(SlotLost, match="the blobs cannot be kept: No space left on device"):
        way.propose()
    assert "sent" not in way.done


def test_what_l1_would_refuse_is_not_handed_on() -> None:
    way = Way()
    way.is_refused = True
    with pytest.raises(SlotLost, match="it is refused"):
        way.propose()
    assert not {"sent", "handed on 1"} & set(way.done)


def test_no_stop_waits_for_the_setup_of_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds of a processor, a minute on a busy machine, and cannot be interrupted."""
    has_begun, may_end = threading.Event(), threading.Event()

    def load() -> None:
        has_begun.set()
        may_end.wait(PATIENCE_S)

    monkeypatch.setattr("fastnode.sequencing.l1_publication.load_setup", load)
    L1Publication.warm_up(object.__new__(L1Publication))
    assert has_begun.wait(PATIENCE_S)
    [thread] = [each for each in threading.enumerate() if each.name == "fastnode-kzg-setup"]
    assert thread.daemon
    may_end.set()
    thread.join(PATIENCE_S)


def test_checkpoints_and_votes_go_through_the_contract_that_the_operator_named() -> None:
    way = Way(forwarder=b"\x0f" * 20)
    way.propose()
    way.cast()
    assert [request.target for request in way.sent] == [b"\x0f" * 20] * 2


def test_votes_that_would_be_mined_in_the_next_slot_are_not_sent_or_taken_back() -> None:
    way = Way()
    way.cast()
    (request,) = way.sent
    # The last L1 block of the slot: the next one belongs to another proposer, whose signature this is not.
    assert (request.give_up_at, request.slot_ends_at) == (68, 72)


def test_the_operator_says_how_much_more_gas_transactions_may_take() -> None:
    usual, without, twice = (Way(gas_buffer_percent=percent) for percent in (20, 0, 100))
    for way in (usual, without, twice):
        way.propose()
        way.cast()
    for place in range(2):
        bare = without.sent[place].gas
        assert usual.sent[place].gas == pytest.approx(bare * 1.2, abs=2)
        assert twice.sent[place].gas == pytest.approx(bare * 2, abs=2)
