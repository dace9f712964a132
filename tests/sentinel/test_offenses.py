"""Offenses: who, how much, in which round; what is found in epochs and checkpoints, and what is kept of it."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import PATIENCE_S

from fastnode.errors import DataDirectoryError
from fastnode.sentinel.attestations import Attestations
from fastnode.sentinel.offense_store import OffenseStore, SeenCheckpoint
from fastnode.sentinel.offenses import Offense, OffenseType, RoundSize
from fastnode.sentinel.watch import OffenseThread, OffenseWatch
from fastnode.view import Committed, View

EPOCH_SLOTS, SLOT_S, GENESIS = 4, 36, 1_700_000_000
LAZY, HALF, GOOD = b"\x01" * 20, b"\x02" * 20, b"\x03" * 20
PROPOSER = b"\x0f" * 20
MEMBERS = tuple(bytes([0xA0 + number]) * 20 for number in range(6))
CHAIN = b"\x07" * 32

DEFAULTS: dict[str, Any] = {
    "slashInactivityPenalty": 10**19,
    "slashInactivityTargetPercentage": 0.9,
    "slashInactivityConsecutiveEpochThreshold": 1,
    "slashProposeInvalidAttestationsPenalty": 5,
    "slashAttestDescendantOfInvalidPenalty": 7,
    "slashDuplicateProposalPenalty": 0,
    "slashDuplicateAttestationPenalty": 0,
    "slashBroadcastedInvalidBlockPenalty": 9,
    "slashPrunePenalty": 8,
    "slashOffenseExpirationRounds": 4,
    "slashGracePeriodL2Slots": 0,
}


class FakeSentinel:
    """Epochs 0 to 29: one validator does nothing, one half of it, one everything; some are not in every committee.

    Checkpoints as a test gives them, by header hash.
    """

    history_epochs = 24
    knows_l1 = False

    def __init__(self, proven: int = 30, committee: Sequence[bytes] | None = None) -> None:
        self.proven = proven
        self.begin: int | None = 0
        self.committee = committee
        self.proposer: bytes | None = PROPOSER
        self.signed: dict[bytes, Attestations] = {}
        self.asked: list[int] = []
        self.slot = 31 * EPOCH_SLOTS

    def current_slot(self, _view: object) -> int:
        return self.slot

    def proven_performance(self, _view: object) -> dict[int, dict[bytes, tuple[int, int]]]:
        return {epoch: self.counts(epoch) for epoch in range(self.proven)}

    def counts(self, epoch: int) -> dict[bytes, tuple[int, int]]:
        counts = {HALF: (2, 4), GOOD: (0, 4)}
        return counts | {LAZY: (4, 4)} if epoch % 3 else counts

    def watches_from(self, _view: object) -> int | None:
        return self.begin

    def proposer_of(self, _slot: int) -> bytes | None:
        return self.proposer

    def committee_of(self, _epoch: int) -> Sequence[bytes] | None:
        return self.committee

    def attestations(self, view: FakeView, number: int) -> Attestations | None:
        self.asked.append(number)
        return self.signed.get(view.checkpoint(number).header_hash)


class FakeView:
    """A chain with the given checkpoints: slot and header hash, from number 1 on."""

    chain = SimpleNamespace(epoch_duration=EPOCH_SLOTS, slot_duration=SLOT_S, l1_genesis_time=GENESIS)

    def __init__(self, *checkpoints: tuple[int, bytes]) -> None:
        self._checkpoints = checkpoints
        newest = SimpleNamespace(checkpoint=SimpleNamespace(number=len(checkpoints)))
        self.tips = SimpleNamespace(checkpointed=newest)

    def checkpoint(self, number: int) -> Any:
        if not 0 < number <= len(self._checkpoints):
            return None
        slot, header_hash = self._checkpoints[number - 1]
        return SimpleNamespace(number=number, slot_number=slot, header_hash=header_hash)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[OffenseStore]:
    opened = OffenseStore.open(tmp_path / "offenses", CHAIN)
    yield opened
    opened.close()


Watch = Callable[..., OffenseWatch]


@pytest.fixture
def watch(store: OffenseStore) -> Watch:
    def make(
        epoch_now: int = 31, size: RoundSize | None = None, sentinel: FakeSentinel | None = None, **configuration: Any
    ) -> OffenseWatch:
        sentinel = sentinel or FakeSentinel()
        sentinel.slot = epoch_now * EPOCH_SLOTS
        return OffenseWatch(sentinel, DEFAULTS | configuration, size or RoundSize(4, 2), store)  # type: ignore[arg-type]

    return make


def found(watch: OffenseWatch, wanted: int | str, view: FakeView | None = None) -> list[tuple[bytes, int]]:
    return [(item.validator, item.at) for item in watch.offenses(view or FakeView(), wanted)]  # type: ignore[arg-type]


def lazy_in(epochs: range) -> list[tuple[bytes, int]]:
    return [(LAZY, epoch) for epoch in epochs if epoch % 3]


# ---- what an offense is ------------------------------------------------------------------------------


def test_an_offense_names_validator_amount_kind_and_epoch(watch: Watch) -> None:
    first = watch().offenses(FakeView(), 5)[0]  # type: ignore[arg-type]
    assert first.to_json() == {
        "validator": "0x" + LAZY.hex(),
        "amount": "10000000000000000000",
        "offenseType": 3,
        "epochOrSlot": "13",
    }
    assert Offense.from_json(first.to_json()) == first


@pytest.mark.parametrize(
    "change",
    [
        {"validator": "0x12"},
        {"validator": None},
        {"amount": "-1"},
        {"amount": "x"},
        {"offenseType": 10},
        {"epochOrSlot": "-1"},
        {"epochOrSlot": []},
    ],
)
def test_what_is_no_offense_is_not_read_as_one(change: dict[str, Any]) -> None:
    good = Offense(LAZY, 1, OffenseType.UNKNOWN, 0).to_json()
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        Offense.from_json(good | change)


def test_the_kinds_have_the_numbers_of_the_network_and_the_first_four_are_of_epochs() -> None:
    assert [kind.name for kind in OffenseType] == [
        "UNKNOWN",
        "DATA_WITHHOLDING",
        "VALID_EPOCH_PRUNED",
        "INACTIVITY",
        "BROADCASTED_INVALID_BLOCK_PROPOSAL",
        "PROPOSED_INSUFFICIENT_ATTESTATIONS",
        "PROPOSED_INCORRECT_ATTESTATIONS",
        "ATTESTED_DESCENDANT_OF_INVALID",
        "DUPLICATE_PROPOSAL",
        "DUPLICATE_ATTESTATION",
    ]
    assert [kind.is_of_epoch for kind in OffenseType] == [True] * 4 + [False] * 6


@pytest.mark.parametrize("kind", OffenseType)
def test_an_offense_counts_in_the_round_of_its_first_slot(kind: OffenseType) -> None:
    offense = Offense(LAZY, 1, kind, 40)
    assert RoundSize(4, 2).round_of(offense, EPOCH_SLOTS) == (10 if kind.is_of_epoch else 2)


# ---- rounds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [5, 6, 7, 8])
def test_a_round_votes_on_what_happened_two_rounds_earlier(watch: Watch, wanted: int) -> None:
    assert found(watch(), wanted) == lazy_in(range(4 * (wanted - 2), 4 * (wanted - 1)))


@pytest.mark.parametrize("wanted", [0, 1, 50])
def test_a_round_before_the_first_or_after_the_last_has_none(watch: Watch, wanted: int) -> None:
    assert found(watch(slashOffenseExpirationRounds=0), wanted) == []


def test_the_current_round_is_that_of_the_clock(watch: Watch) -> None:
    assert found(watch(epoch_now=16, slashOffenseExpirationRounds=0), "current") == lazy_in(range(8, 12))
    assert found(watch(epoch_now=31, slashOffenseExpirationRounds=0), "current") == lazy_in(range(20, 24))
    assert found(watch(epoch_now=-100), "current") == []


def test_the_size_of_a_round_is_that_of_the_contracts(watch: Watch) -> None:
    assert found(watch(size=RoundSize(1, 0), slashOffenseExpirationRounds=0), 5) == lazy_in(range(5, 6))


def test_all_are_those_that_have_not_expired(watch: Watch) -> None:
    assert found(watch(slashOffenseExpirationRounds=0), "all") == lazy_in(range(30))
    assert found(watch(slashOffenseExpirationRounds=4), "all") == lazy_in(range(12, 30))
    assert found(watch(slashOffenseExpirationRounds=1), "all") == lazy_in(range(24, 30))
    # Expired offenses are gone for good.
    assert found(watch(slashOffenseExpirationRounds=0), "all") == lazy_in(range(24, 30))


# ---- inactivity ---------------------------------------------------------------------------------------


def test_the_target_says_who_is_inactive(watch: Watch) -> None:
    both = found(watch(slashInactivityTargetPercentage=0.5), 6)
    assert {validator for validator, _ in both} == {LAZY, HALF}


def test_a_target_just_above_ones_share_spares_him(watch: Watch) -> None:
    assert found(watch(slashInactivityTargetPercentage=0.500001), 6) == lazy_in(range(16, 20))


def test_epochs_in_a_row_are_those_of_its_committees(watch: Watch) -> None:
    patient = watch(slashOffenseExpirationRounds=0, slashInactivityConsecutiveEpochThreshold=3)
    assert found(patient, "all") == lazy_in(range(4, 30))


def test_without_a_penalty_no_inactivity_is_recorded(watch: Watch) -> None:
    assert found(watch(slashInactivityPenalty=0), "all") == []


def test_only_epochs_that_were_watched_from_their_first_slot_are_judged(watch: Watch) -> None:
    sentinel = FakeSentinel()
    sentinel.begin = None
    late = watch(slashOffenseExpirationRounds=0, sentinel=sentinel)
    assert found(late, "all") == []
    sentinel.begin = 20 * EPOCH_SLOTS + 1
    assert found(late, "all") == lazy_in(range(21, 30))


def test_inactivity_in_a_row_begins_with_the_first_epoch_that_was_watched(watch: Watch) -> None:
    sentinel = FakeSentinel()
    sentinel.begin = 20 * EPOCH_SLOTS
    patient = watch(slashOffenseExpirationRounds=0, slashInactivityConsecutiveEpochThreshold=3, sentinel=sentinel)
    assert found(patient, "all") == lazy_in(range(23, 30))


def test_without_statistics_nobody_is_accused_of_inactivity(store: OffenseStore) -> None:
    size = RoundSize(4, 2)
    watch = OffenseWatch(FakeSentinel(), DEFAULTS, size, store, judges_inactivity=False)  # type: ignore[arg-type]
    assert found(watch, "all") == []


def test_the_first_slots_may_be_spared(watch: Watch) -> None:
    assert found(watch(slashGracePeriodL2Slots=80), "all") == lazy_in(range(20, 30))


def test_an_epoch_is_judged_once_by_the_configuration_of_that_moment(watch: Watch) -> None:
    assert found(watch(sentinel=FakeSentinel(proven=20)), "all") == lazy_in(range(12, 20))
    later = watch(slashInactivityPenalty=3, slashInactivityTargetPercentage=0.5)
    amounts = {(item.validator, item.at): item.amount for item in later.offenses(FakeView(), "all")}  # type: ignore[arg-type]
    assert all(amounts[LAZY, epoch] == 10**19 for epoch in range(12, 20) if epoch % 3)
    assert all(amounts[LAZY, epoch] == 3 for epoch in range(20, 30) if epoch % 3)
    assert {epoch for validator, epoch in amounts if validator == HALF} == set(range(20, 30))


# ---- checkpoints --------------------------------------------------------------------------------------------


def by(*signers: int, of: int = 6, is_broken: bool = False) -> Attestations:
    """The attestations of a committee, of which these members signed."""
    return Attestations(MEMBERS[:of], frozenset(MEMBERS[number] for number in signers), is_broken)


@pytest.fixture
def sentinel() -> FakeSentinel:
    return FakeSentinel(proven=0)


A, B, C, D = (bytes([0x10 + number]) * 32 for number in range(4))
NOW = {"epoch_now": 0}


def kinds(watch: OffenseWatch, view: FakeView) -> list[tuple[str, bytes, int, int]]:
    offenses = watch.offenses(view, "all")  # type: ignore[arg-type]
    return [(item.type.name, item.validator, item.at, item.amount) for item in offenses]


def test_a_checkpoint_that_more_than_two_thirds_signed_is_in_order(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.signed = {A: by(0, 1, 2, 3, 4), B: by(0, 1, 2, 3, 4, 5), C: by(0, 1, 2, of=3)}
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A), (2, B), (3, C))) == []


def test_a_network_without_a_committee_has_no_offenses(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.signed = {A: Attestations((), frozenset())}
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A))) == []


def test_too_few_attestations_are_the_proposers_offense(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.signed = {A: by(0, 1, 2, 3)}
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A))) == [
        ("PROPOSED_INSUFFICIENT_ATTESTATIONS", PROPOSER, 1, 5)
    ]


def test_a_signature_without_an_address_is_the_proposers_offense(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.signed = {A: by(0, 1, 2, 3, 4, is_broken=True)}
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A))) == [
        ("PROPOSED_INCORRECT_ATTESTATIONS", PROPOSER, 1, 5)
    ]


def test_a_signature_of_another_than_the_drawn_member_is_incorrect(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.committee = (GOOD, *MEMBERS[1:])
    sentinel.signed = {A: by(0, 1, 2, 3, 4, 5), B: by(1, 2, 3, 4, 5)}
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A))) == [
        ("PROPOSED_INCORRECT_ATTESTATIONS", PROPOSER, 1, 5)
    ]
    assert not any(at == 2 for _, _, at, _ in kinds(watch(**NOW, sentinel=sentinel), FakeView((2, B))))


def test_a_committee_that_is_larger_than_its_attestations_counts_whole(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.committee = (*MEMBERS, GOOD, HALF)
    sentinel.signed = {A: by(0, 1, 2, 3, 4)}
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A)))[0][0] == "PROPOSED_INSUFFICIENT_ATTESTATIONS"


def test_a_checkpoint_whose_committee_l1_has_not_told_yet_waits_for_it(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.knows_l1 = True
    sentinel.signed = {A: by(0, 1)}
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A))) == []
    sentinel.committee = MEMBERS
    assert len(kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A)))) == 1


def test_without_a_committee_on_l1_what_the_checkpoint_says_counts(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.committee = ()
    sentinel.signed = {A: by(0, 1, 2, 3, 4), B: Attestations((), frozenset())}
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A), (2, B))) == []


def test_without_l1_the_proposer_is_unknown_but_signatures_count(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.proposer = None
    sentinel.signed = {A: by(0, 1), B: by(0, 1, 2, 3, 4)}
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A), (2, B))) == [
        ("ATTESTED_DESCENDANT_OF_INVALID", MEMBERS[number], 2, 7) for number in range(5)
    ]


def test_attesting_to_a_descendant_of_an_invalid_checkpoint_is_an_offense_at_any_time(
    watch: Watch, sentinel: FakeSentinel
) -> None:
    sentinel.signed = {A: by(0, 1), B: by(2, 3, 4, 5, 1), C: by(0, 1, 2, 3, 4)}
    watch(**NOW, sentinel=sentinel).look(FakeView((1, A)))  # type: ignore[arg-type]
    later = kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A), (2, B), (3, C)))
    assert [(name, at) for name, _, at, _ in later] == [
        ("PROPOSED_INSUFFICIENT_ATTESTATIONS", 1),
        *[("ATTESTED_DESCENDANT_OF_INVALID", 2)] * 5,
        *[("ATTESTED_DESCENDANT_OF_INVALID", 3)] * 5,
    ]


def test_attesting_to_two_checkpoints_of_one_slot_is_an_offense(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.signed = {A: by(0, 1, 2, 3, 4), B: by(1, 2, 3, 4, 5), C: by(0, 1, 2, 3, 4)}
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A), (2, B))) == []
    # A reorg has replaced the checkpoint of slot 2.
    assert kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A), (2, C))) == [
        ("DUPLICATE_PROPOSAL", PROPOSER, 2, 0),
        *[("DUPLICATE_ATTESTATION", MEMBERS[number], 2, 0) for number in (1, 2, 3, 4)],
    ]
    # And back again: nothing new.
    assert len(kinds(watch(**NOW, sentinel=sentinel), FakeView((1, A), (2, B)))) == 5


def test_the_same_checkpoint_after_a_rollback_is_no_offense(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.signed = dict.fromkeys((A, B), by(0, 1, 2, 3, 4))
    for view in (FakeView((1, A), (2, B)), FakeView((1, A)), FakeView((1, A), (2, B))):
        assert kinds(watch(**NOW, sentinel=sentinel), view) == []


def test_a_checkpoint_is_looked_at_once(watch: Watch, sentinel: FakeSentinel) -> None:
    sentinel.signed = dict.fromkeys((A, B, C, D), by(0, 1, 2, 3, 4))
    watch(**NOW, sentinel=sentinel).look(FakeView((1, A), (2, B)))  # type: ignore[arg-type]
    assert sentinel.asked == [1, 2]
    watch(**NOW, sentinel=sentinel).look(FakeView((1, A), (2, B), (3, C), (7, D)))  # type: ignore[arg-type]
    assert sentinel.asked == [1, 2, 3, 4]


def test_checkpoints_older_than_the_statistics_are_neither_looked_at_nor_kept(
    watch: Watch, sentinel: FakeSentinel, store: OffenseStore
) -> None:
    sentinel.signed = dict.fromkeys((A, B, C), by(0, 1, 2, 3, 4))
    window = sentinel.history_epochs * EPOCH_SLOTS
    watch(**NOW, sentinel=sentinel).look(FakeView((1, A), (2, B)))  # type: ignore[arg-type]
    assert store.seen(1)
    watch(**NOW, sentinel=sentinel).look(FakeView((1, A), (2, B), (2 + window, C)))  # type: ignore[arg-type]
    assert not store.seen(1)
    assert store.seen(2)
    assert store.seen(2 + window)


# ---- what is kept -------------------------------------------------------------------------------------------

ADDRESS = st.binary(min_size=20, max_size=20)
OFFENSES = st.builds(Offense, ADDRESS, st.integers(0, 2**256 - 1), st.sampled_from(OffenseType), st.integers(0, 2**63))
SEEN = st.builds(
    SeenCheckpoint, st.integers(0, 2**63), st.binary(min_size=32, max_size=32), st.frozensets(ADDRESS), st.booleans()
)


@settings(max_examples=25)
@given(offenses=st.lists(OFFENSES, unique_by=lambda item: item.key), seen=st.lists(SEEN, max_size=5))
def test_what_was_kept_is_there_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory, offenses: list[Offense], seen: list[SeenCheckpoint]
) -> None:
    path = tmp_path_factory.mktemp("kept") / "offenses"
    store = OffenseStore.open(path, CHAIN)
    store.add(offenses, seen, 17)
    store.forget(offenses[:1], below_slot=0)
    store.close()
    again = OffenseStore.open(path, CHAIN)
    assert sorted(again.offenses(), key=lambda item: item.key) == sorted(offenses[1:], key=lambda item: item.key)
    last = {(item.slot, item.header_hash): item for item in seen}
    assert {key: again.seen(key[0])[key[1]] for key in last} == last
    assert again.judged_epochs == 17
    again.close()
    again.close()


def test_offenses_of_another_chain_or_a_newer_release_are_refused(tmp_path: Path) -> None:
    OffenseStore.open(tmp_path / "offenses", CHAIN).close()
    with pytest.raises(DataDirectoryError, match="holds offenses of validators of another chain"):
        OffenseStore.open(tmp_path / "offenses", b"\x08" * 32)
    (tmp_path / "other").mkdir()
    store = OffenseStore.open(tmp_path / "other", CHAIN)
    store._database.write([(b"\x00schema", b"\x00\x00\x00\x02")])
    store.close()
    with pytest.raises(DataDirectoryError, match="has schema 2, newer than this fastnode's 1"):
        OffenseStore.open(tmp_path / "other", CHAIN)


def test_a_node_that_was_away_goes_on_where_it_was(tmp_path: Path, sentinel: FakeSentinel) -> None:
    sentinel.slot = 0

    def ask(view: FakeView) -> list[tuple[str, bytes, int, int]]:
        store = OffenseStore.open(tmp_path / "offenses", CHAIN)
        try:
            watch = OffenseWatch(sentinel, DEFAULTS, RoundSize(4, 2), store)  # type: ignore[arg-type]
            return kinds(watch, view)
        finally:
            store.close()

    sentinel.signed = {A: by(0, 1, 2, 3, 4), B: by(0, 1, 2, 3, 4)}
    assert ask(FakeView((1, A))) == []
    assert len(ask(FakeView((1, B)))) == 6
    assert len(ask(FakeView((1, B)))) == 6


# ---- the thread -----------------------------------------------------------------------------------------------


def test_the_thread_sees_what_a_reorg_replaces_once_the_chain_is_new_enough(
    watch: Watch, sentinel: FakeSentinel, store: OffenseStore, caplog: pytest.LogCaptureFixture
) -> None:
    sentinel.signed = dict.fromkeys((A, B, C), by(0, 1, 2, 3, 4))
    is_ready = [False]
    asked, looked = queue.SimpleQueue[bool](), queue.SimpleQueue[object]()
    watching = watch(**NOW, sentinel=sentinel)
    original = watching.look

    def look(view: Any) -> None:
        original(view)
        looked.put(view)

    def ready() -> bool:
        answer = is_ready[0]
        asked.put(answer)
        return answer

    watching.look = look  # type: ignore[method-assign]
    thread = OffenseThread(watching, ready)
    thread.start()
    with caplog.at_level(logging.WARNING, "fastnode.sentinel"):
        try:
            thread.on_committed(Committed(View(FakeView((1, A)))))  # type: ignore[arg-type]
            for _ in range(2):  # by the thread of ingestion, and by its own
                assert not asked.get(timeout=PATIENCE_S)
            is_ready[0] = True
            for view in (FakeView((1, B)), FakeView((1, C))):
                thread.on_committed(Committed(View(view)))  # type: ignore[arg-type]
                assert looked.get(timeout=PATIENCE_S) is view
        finally:
            thread.close()
            thread.close()
    assert set(store.seen(1)) == {B, C}
    assert len(store.offenses()) == 6
    assert caplog.messages == ["offenses found"]


def test_the_thread_sees_what_a_reorg_replaces_during_a_look(
    watch: Watch, sentinel: FakeSentinel, store: OffenseStore, caplog: pytest.LogCaptureFixture
) -> None:
    sentinel.signed = dict.fromkeys((A, B, C), by(0, 1, 2, 3, 4))
    watching = watch(**NOW, sentinel=sentinel)
    original, begun, looked = watching.look, threading.Event(), queue.SimpleQueue[object]()
    go_on = threading.Event()

    def look(view: Any) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        original(view)
        looked.put(view)

    watching.look = look  # type: ignore[method-assign]
    thread = OffenseThread(watching, lambda: True)
    thread.start()
    views = [FakeView((1, A)), FakeView((1, B)), FakeView((1, C))]
    try:
        thread.on_committed(Committed(View(views[0])))  # type: ignore[arg-type]
        assert begun.wait(PATIENCE_S)
        for view in views[1:]:
            thread.on_committed(Committed(View(view)))  # type: ignore[arg-type]
        go_on.set()
        assert [looked.get(timeout=PATIENCE_S) for _ in views] == views
    finally:
        go_on.set()
        thread.close()
    assert set(store.seen(1)) == {A, B, C}


def test_what_l1_says_of_rounds_replaces_the_settings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    size = RoundSize(epochs=4, offset_rounds=2)
    size.learn(4, 2)
    assert caplog.text == ""
    size.learn(10, 3)
    assert (size.epochs, size.offset_rounds) == (10, 3)
    assert size.round_at(100, epoch_duration=5) == 2
    assert "in another way than the settings" in caplog.text


def test_what_was_seen_on_the_peer_to_peer_network_is_kept_once_and_counts_in_its_round(watch: Watch) -> None:
    found = watch(sentinel=FakeSentinel(proven=0), slashGracePeriodL2Slots=10)
    kind = OffenseType.BROADCASTED_INVALID_BLOCK_PROPOSAL
    slot = 31 * EPOCH_SLOTS
    for at in (slot, slot, 9):  # the last one in the time of grace
        found.accuse(kind, PROPOSER, at, EPOCH_SLOTS)
    pruned = OffenseType.VALID_EPOCH_PRUNED
    for epoch in (31, 0):  # the second one in the time of grace
        found.accuse(pruned, PROPOSER, epoch, EPOCH_SLOTS)
    both = [Offense(PROPOSER, 8, pruned, 31), Offense(PROPOSER, 9, kind, slot)]
    assert found.offenses(FakeView(), "all") == both  # type: ignore[arg-type]
