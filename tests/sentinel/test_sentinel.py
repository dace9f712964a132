"""Statistics of validators: a chain whose checkpoints some of a committee signed."""

from __future__ import annotations

import dataclasses
import json
import lzma
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from coincurve import PrivateKey

from fastnode.archiver.queries import ChainView
from fastnode.chain_data import ChainData
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.ethereum import keccak_256, payload_digest, signed_digest
from fastnode.sentinel.sentinel import Sentinel
from fastnode.sentinel.statistics import SlotTime, Status, describe_validator
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

KEYS = [PrivateKey(bytes([number]) * 32) for number in range(1, 5)]


def address_of(key: PrivateKey) -> bytes:
    return keccak_256(key.public_key.format(compressed=False)[1:])[-20:]


ADDRESSES = [address_of(key) for key in KEYS]
NO_SIGNATURE = "0x" + "00" * 65

#: Checkpoints of the chain.
CHECKPOINTS = 12


def signed(
    record: dict[str, Any], is_absent: Callable[[int, int], bool], keys: Sequence[PrivateKey] = KEYS
) -> dict[str, Any]:
    """The record of a checkpoint with the committee's attestations; ``is_absent(checkpoint, member)``."""
    checkpoint = PublishedCheckpoint.from_json(record["published"]).checkpoint
    digest = signed_digest(
        payload_digest(checkpoint.header, checkpoint.archive.root, checkpoint.fee_asset_price_modifier)
    )
    attestations = []
    for member, key in enumerate(keys):
        if is_absent(checkpoint.number, member):
            attestations.append({"address": "0x" + address_of(key).hex(), "signature": NO_SIGNATURE})
            continue
        signature = key.sign_recoverable(digest, hasher=None)
        text = "0x" + (signature[:64] + bytes([27 + signature[64]])).hex()
        attestations.append({"address": "0x" + "00" * 20, "signature": text})
    record["published"]["attestations"] = attestations
    return record


def absent(checkpoint: int, member: int) -> bool:
    """Member 1 is never there, member 2 misses the last three checkpoints, the others miss nothing."""
    return member == 1 or (member == 2 and checkpoint > CHECKPOINTS - 3)


@pytest.fixture(scope="module")
def view(sample_chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainView]:
    folder = tmp_path_factory.mktemp("attested")
    with lzma.open(sample_chain) as lines:
        records = [json.loads(line) for _, line in zip(range(2 + CHECKPOINTS), lines, strict=False)]
    file = folder / "chain.jsonl"
    file.write_text("".join(json.dumps(item) + "\n" for item in records[:2] + [signed(r, absent) for r in records[2:]]))
    with ChainData.open(folder / "data") as data:
        adopt_chain_file(data.store, file)
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        import_chain_file(ingestor, file)
        with data.store.open_view() as opened:
            yield opened


def slots_of(view: ChainView) -> list[int]:
    found = [view.checkpoint(number) for number in range(1, CHECKPOINTS + 1)]
    return [checkpoint.slot_number for checkpoint in found if checkpoint is not None]


def sentinel(view: ChainView, *, slots_later: int = 2, **options: Any) -> Sentinel:
    """As it is asked some slots after the newest checkpoint."""
    time = SlotTime(view.chain.l1_genesis_time, view.chain.slot_duration)
    defaults: dict[str, Any] = {
        "history_epochs": 24,
        "proven_epochs": 2000,
        "is_ready": lambda: True,
        "now": lambda: time.of(slots_of(view)[-1] + slots_later),
    }
    return Sentinel(**defaults | options)


def stats(view: ChainView, watcher: Sentinel, member: int) -> dict[str, Any]:
    found: dict[str, Any] = watcher.validators_stats(view)["stats"]["0x" + ADDRESSES[member].hex()]
    return found


# ---- attestations ------------------------------------------------------------------------------------


def test_every_member_is_found_whether_it_signed_or_not(view: ChainView) -> None:
    answer = sentinel(view).validators_stats(view)
    assert set(answer["stats"]) == {"0x" + address.hex() for address in ADDRESSES}
    assert answer["slotWindow"] == 24 * view.chain.epoch_duration
    assert answer["lastProcessedSlot"] == slots_of(view)[-1]


def test_who_signs_always_has_missed_nothing(view: ChainView) -> None:
    found = stats(view, sentinel(view), 0)
    assert found["missedAttestations"] == {"currentStreak": 0, "rate": 0.0, "count": 0, "total": CHECKPOINTS}
    assert found["totalSlots"] == CHECKPOINTS
    assert found["lastAttestation"]["slot"] == slots_of(view)[-1]
    assert found["history"] == [{"slot": slot, "status": "attestation-sent"} for slot in slots_of(view)]


def test_who_never_signs_has_missed_everything(view: ChainView) -> None:
    found = stats(view, sentinel(view), 1)
    assert found["missedAttestations"] == {
        "currentStreak": CHECKPOINTS,
        "rate": 1.0,
        "count": CHECKPOINTS,
        "total": CHECKPOINTS,
    }
    assert "lastAttestation" not in found


def test_a_streak_counts_from_the_end(view: ChainView) -> None:
    missed = stats(view, sentinel(view), 2)["missedAttestations"]
    assert (missed["currentStreak"], missed["count"], missed["rate"]) == (3, 3, 3 / CHECKPOINTS)


def test_without_proposals_there_is_no_rate(view: ChainView) -> None:
    found = stats(view, sentinel(view), 0)
    assert found["missedProposals"] == {"currentStreak": 0, "count": 0, "total": 0}
    assert "lastProposal" not in found


def test_a_chain_without_attestations_has_no_statistics(sample_chain: Path, tmp_path: Path) -> None:
    with ChainData.open(tmp_path) as data:
        adopt_chain_file(data.store, sample_chain)
        ingestor = data.open_ingestor(verify=False)
        import_chain_file(ingestor, sample_chain)
        with data.store.open_view() as view:
            assert sentinel(view).validators_stats(view)["stats"] == {}
            assert sentinel(view).validator_stats(view, ADDRESSES[0]) is None


# ---- proposers ---------------------------------------------------------------------------------------------


def test_a_proposer_is_judged_by_its_checkpoint(view: ChainView) -> None:
    slots = slots_of(view)
    first_of_epoch = slots[-1] // view.chain.epoch_duration * view.chain.epoch_duration
    gap = next((s for s in range(first_of_epoch, slots[-1] + 3) if s not in slots), None)
    proposers = {slots[-1]: ADDRESSES[3], gap: ADDRESSES[3]}
    found = stats(view, sentinel(view, slots_later=4, proposer_of=proposers.get), 3)
    statuses = {item["slot"]: item["status"] for item in found["history"]}
    assert statuses[slots[-1]] == "checkpoint-mined"
    assert found["lastProposal"]["slot"] == slots[-1]
    if gap in statuses:
        assert statuses[gap] == "blocks-missed"
        assert found["missedProposals"]["count"] == 1


# ---- slots -------------------------------------------------------------------------------------------------


def test_a_slot_is_judged_two_slots_later(view: ChainView) -> None:
    newest = slots_of(view)[-1]
    assert sentinel(view, slots_later=1).validators_stats(view)["lastProcessedSlot"] == newest - 1
    assert sentinel(view, slots_later=5).validators_stats(view)["lastProcessedSlot"] == newest + 3


def test_a_node_that_is_behind_judges_only_what_it_has(view: ChainView) -> None:
    behind = sentinel(view, slots_later=500, is_ready=lambda: False)
    assert behind.validators_stats(view)["lastProcessedSlot"] == slots_of(view)[-1]


def test_before_the_first_slot_there_is_nothing(view: ChainView) -> None:
    early = sentinel(view, now=lambda: 0.0)
    assert early.validators_stats(view) == {"stats": {}, "slotWindow": 24 * view.chain.epoch_duration}
    assert early.validator_stats(view, ADDRESSES[0]) is None


def test_the_window_forgets_old_slots(view: ChainView) -> None:
    found = stats(view, sentinel(view, history_epochs=1), 0)
    newest = slots_of(view)[-1]
    kept = [slot for slot in slots_of(view) if slot >= newest - view.chain.epoch_duration]
    assert [item["slot"] for item in found["history"]] == kept


# ---- one validator -------------------------------------------------------------------------------------------


def test_one_validator_may_be_asked_for_a_range(view: ChainView) -> None:
    slots = slots_of(view)
    answer = sentinel(view).validator_stats(view, ADDRESSES[0], slots[2], slots[5])
    assert answer is not None
    assert [item["slot"] for item in answer["validator"]["history"]] == slots[2:6]
    assert answer["lastProcessedSlot"] == slots[-1]


@pytest.mark.parametrize(("first", "last"), [(10**9, None), (5, 4), (0, 0)])
def test_a_range_without_slots_finds_no_validators(view: ChainView, first: int, last: int | None) -> None:
    assert sentinel(view).validator_stats(view, ADDRESSES[0], first, last) is None


def test_an_enormous_range_costs_no_more_than_the_window(view: ChainView) -> None:
    answer = sentinel(view, history_epochs=2).validator_stats(view, ADDRESSES[0], 0, 2**63)
    assert answer is not None
    assert len(answer["validator"]["history"]) <= 2 * view.chain.epoch_duration + 1


def test_a_stranger_is_not_found(view: ChainView) -> None:
    assert sentinel(view).validator_stats(view, bytes(20)) is None


class Proven:
    """A view with its proven tip at the newest checkpoint."""

    def __init__(self, view: ChainView) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    @property
    def tips(self) -> Any:
        return dataclasses.replace(self._view.tips, proven=self._view.tips.checkpointed)


def test_proven_epochs_count_for_all_time(view: ChainView) -> None:
    proven: Any = Proven(view)
    watcher = sentinel(view, slots_later=20)
    watcher.hears_attestations = True
    answer = watcher.validator_stats(proven, ADDRESSES[2])
    assert answer is not None
    performance = answer["allTimeProvenPerformance"]
    duration = view.chain.epoch_duration
    assert [item["epoch"] for item in performance] == sorted({slot // duration for slot in slots_of(view)})
    assert sum(item["total"] for item in performance) == CHECKPOINTS
    assert sum(item["missed"] for item in performance) == 3
    assert sorted(watcher.proven_performance(proven)) == [item["epoch"] for item in performance]


# ---- what L1 tells --------------------------------------------------------------------------------------------


def test_who_l1_draws_is_judged_though_no_checkpoint_names_him(view: ChainView) -> None:
    stranger = bytes(19) + b"\x05"
    watcher = sentinel(view)
    watcher.learn_from(lambda _epoch: (*ADDRESSES, stranger), lambda slot: ADDRESSES[slot % 2])
    absent_one = watcher.validator_stats(view, stranger)
    assert absent_one is not None
    missed = absent_one["validator"]["missedAttestations"]
    assert missed["count"] == missed["total"] == CHECKPOINTS
    first = watcher.validator_stats(view, ADDRESSES[0])
    assert first is not None
    statuses = {item["slot"]: item["status"] for item in first["validator"]["history"]}
    assert {statuses[slot] for slot in slots_of(view) if slot % 2 == 0} == {"checkpoint-mined"}
    assert {statuses[slot] for slot in slots_of(view) if slot % 2} == {"attestation-sent"}


def test_an_epoch_that_l1_says_has_no_committee_has_no_statistics(view: ChainView) -> None:
    watcher = sentinel(view)
    watcher.learn_from(lambda _epoch: (), lambda _slot: None)
    assert watcher.validators_stats(view)["stats"] == {}


def test_epochs_without_a_checkpoint_are_not_counted(view: ChainView) -> None:
    proven: Any = Proven(view)
    watcher = sentinel(view, slots_later=20)
    watcher.learn_from(lambda _epoch: ADDRESSES, lambda _slot: ADDRESSES[0])
    duration = view.chain.epoch_duration
    assert sorted(watcher.proven_performance(proven)) == sorted({slot // duration for slot in slots_of(view)})


def test_what_peers_have_sent_of_an_attestation_counts_as_sent(view: ChainView) -> None:
    watcher = sentinel(view)
    for number in range(1, CHECKPOINTS + 1):
        checkpoint = view.checkpoint(number)
        assert checkpoint is not None
        newest = view.block_info(checkpoint.last_block)
        assert newest is not None
        watcher.hear(checkpoint.slot_number, newest.archive_root, ADDRESSES[1])
        watcher.hear(checkpoint.slot_number, bytes(32), ADDRESSES[2])  # another proposal of the slot
    assert stats(view, watcher, 1)["missedAttestations"]["count"] == 0
    assert stats(view, watcher, 2)["missedAttestations"]["count"] == 3


def test_nobody_is_judged_by_a_checkpoint_with_no_more_signatures_than_needed(view: ChainView) -> None:
    proven: Any = Proven(view)
    deaf, hearing = sentinel(view, slots_later=20), sentinel(view, slots_later=20)
    for watcher in (deaf, hearing):
        watcher.learn_from(lambda _epoch: ADDRESSES, lambda _slot: None)
    hearing.hears_attestations = True

    def missed(watcher: Sentinel) -> int:
        return sum(counts.get(ADDRESSES[1], (0, 0))[0] for counts in watcher.proven_performance(proven).values())

    assert len(ADDRESSES) * 2 // 3 + 1 >= len(ADDRESSES) - 1  # who never signs leaves no more than are needed
    assert (missed(deaf), missed(hearing)) == (0, CHECKPOINTS)


def test_the_watch_begins_with_the_slot_after_the_first_moment_at_the_tip(view: ChainView) -> None:
    ready: list[bool] = []
    watcher = sentinel(view, is_ready=lambda: bool(ready), slots_later=5)
    assert watcher.watches_from(view) is None
    ready.append(True)
    assert watcher.watches_from(view) == slots_of(view)[-1] + 6


def test_a_proven_epoch_is_not_counted_before_l1_has_told_its_committee(view: ChainView) -> None:
    proven: Any = Proven(view)
    known: list[int] = []
    watcher = sentinel(view, slots_later=20)
    watcher.learn_from(lambda epoch: ADDRESSES if epoch in known else None, lambda _slot: None)
    assert watcher.proven_performance(proven) == {}
    known += range(1000)
    assert len(watcher.proven_performance(proven)) > 1


# ---- the arithmetic --------------------------------------------------------------------------------------------


def test_statistics_of_a_history_by_hand() -> None:
    history = [
        (10, Status.CHECKPOINT_MINED),
        (11, Status.ATTESTATION_SENT),
        (12, Status.CHECKPOINT_PROPOSED),
        (13, Status.ATTESTATION_MISSED),
        (14, Status.BLOCKS_MISSED),
        (15, Status.CHECKPOINT_MISSED),
        (16, Status.ATTESTATION_SENT),
    ]
    assert describe_validator(b"\xab" * 20, history, SlotTime(1_700_000_000, 36)) == {
        "address": "0x" + "ab" * 20,
        "lastProposal": {"timestamp": "1700000432", "slot": 12, "date": "2023-11-14T22:20:32.000Z"},
        "lastAttestation": {"timestamp": "1700000576", "slot": 16, "date": "2023-11-14T22:22:56.000Z"},
        "totalSlots": 7,
        "missedProposals": {"currentStreak": 2, "rate": 0.5, "count": 2, "total": 4},
        "missedAttestations": {"currentStreak": 0, "rate": 1 / 3, "count": 1, "total": 3},
        "history": [{"slot": slot, "status": str(status)} for slot, status in history],
    }
