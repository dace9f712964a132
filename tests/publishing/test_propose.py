"""Calls of the rollup contract against recorded ones: every byte, every digest, every signature."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from tests.publishing.recorded import Published, data_of, published, rows, transaction_of

from fastnode.protocol.checkpoint import CheckpointHeader, RollingCheckpointHeader
from fastnode.protocol.ethereum import payload_digest, recover_signer, signed_digest
from fastnode.protocol.header import GasFees
from fastnode.protocol.kzg import blobs_hash, versioned_hash
from fastnode.publishing import digests
from fastnode.publishing.multicall import Call, bundle
from fastnode.publishing.propose import Attestations, EpochProof, InvalidateCall, ProposeCall, trim_to_quorum
from fastnode.sources.l1.proposals import ProposalLog, ProposedCheckpoint

ALL = published()
WITH_COMMITTEE = [item for item in ALL if item.committee]


def test_all_recorded_proposals_are_there() -> None:
    assert [sum(item.name == name for item in ALL) for name in ("recorded_propose", "committee_propose")] == [41, 34]
    assert sum(item.name == "python_published" for item in ALL) == 17


@pytest.mark.parametrize("item", ALL, ids=lambda item: f"{item.name}-{item.call.header.slot_number}")
def test_a_recorded_transaction_is_rebuilt_byte_for_byte(item: Published) -> None:
    assert item.call.call_data() == item.call_data
    signed = transaction_of(item.row["tx"])
    if len(list(filter(lambda other: other.row is item.row, ALL))) == 1:
        assert bundle([Call(item.target, item.call_data)]) == signed.transaction.data
    assert "0x" + signed.hash().hex() == item.row["tx"]["hash"]
    assert signed.sender() == data_of(item.row["tx"]["from"])
    hashes = tuple(map(versioned_hash, item.call.commitments))
    assert hashes == signed.transaction.versioned_hashes
    assert blobs_hash(hashes) == item.call.header.blobs_hash


def test_the_digests_are_those_of_the_events() -> None:
    for item in ALL:
        place = {"blockNumber": "0x1", "blockHash": "0x" + "00" * 32, "transactionHash": item.row["tx"]["hash"]}
        log = ProposalLog.from_log(place | item.row["event"] | {"logIndex": "0x0"})
        event = ProposedCheckpoint.from_log(log)
        call = item.call
        assert payload_digest(call.header, call.archive_root, call.fee_asset_price_modifier) == event.payload_digest
        assert call.attestations.hash() == event.attestations_hash


def test_without_a_committee_the_publisher_signs_for_nobody() -> None:
    for item in ALL:
        if not item.call.attestations.signature_indices and item.name == "recorded_propose":
            digest = signed_digest(digests.attestations_and_signers(item.call.attestations, item.call.signers))
            assert recover_signer(digest, item.call.proposer_signature) == data_of(item.row["tx"]["from"])


def signatures_of(item: Published) -> dict[bytes, bytes]:
    """By recovery, so that each is known to be right."""
    call, found, at = item.call, {}, 0
    digest = signed_digest(digests.attestation(call.header, call.archive_root))
    data = call.attestations.signatures_or_addresses
    for place, member in enumerate(item.committee):
        if call.attestations.signature_indices[place // 8] >> (7 - place % 8) & 1:
            signature = data[at + 1 : at + 65] + data[at : at + 1]
            assert recover_signer(digest, signature) == member
            found[member] = signature
            at += 65
        else:
            assert data[at : at + 20] == member
            at += 20
    return found


def test_the_signatures_of_a_committee_are_packed_as_they_were() -> None:
    assert len(WITH_COMMITTEE) >= 34
    for item in WITH_COMMITTEE:
        signatures = signatures_of(item)
        assert Attestations.of(item.committee, signatures) == item.call.attestations
        assert tuple(member for member in item.committee if member in signatures) == item.call.signers
        digest = signed_digest(digests.attestations_and_signers(item.call.attestations, item.call.signers))
        assert recover_signer(digest, item.call.proposer_signature) == data_of(item.row["proposer"])


def test_more_signatures_than_needed_are_left_out_the_own_ones_last() -> None:
    committee = [bytes([place]) * 20 for place in range(1, 8)]
    signatures = {member: bytes(65) for member in committee[1:]}
    kept = trim_to_quorum(committee, signatures, proposer=committee[4], own=[committee[6], committee[5]])
    assert list(kept) == [committee[place] for place in (4, 5, 6, 1, 2)]
    with pytest.raises(ValueError, match="has not signed"):
        trim_to_quorum(committee, signatures, proposer=committee[0])
    with pytest.raises(ValueError, match="2 of 7 have signed, 5 are needed"):
        trim_to_quorum(committee, {member: bytes(65) for member in committee[:2]}, proposer=committee[0])


def test_a_signature_of_a_stranger_is_refused() -> None:
    with pytest.raises(ValueError, match="is not in the committee"):
        Attestations.of([b"\1" * 20], {b"\2" * 20: bytes(65)})
    with pytest.raises(ValueError, match="65 bytes"):
        Attestations.of([b"\1" * 20], {b"\1" * 20: bytes(64)})


def test_the_price_modifier_may_be_negative() -> None:
    call = ALL[0].call
    data = ProposeCall(
        header=call.header,
        archive_root=call.archive_root,
        proposer_signature=call.proposer_signature,
        commitments=call.commitments,
        fee_asset_price_modifier=-100,
    ).call_data()
    assert data[4 + 32 : 4 + 64] == (2**256 - 100).to_bytes(32, "big")


def test_a_checkpoint_has_one_to_six_blobs() -> None:
    call = ALL[0].call
    for count in (0, 7):
        with pytest.raises(ValueError, match="1 to 6 blobs"):
            ProposeCall(
                header=call.header,
                archive_root=call.archive_root,
                proposer_signature=call.proposer_signature,
                commitments=call.commitments[:1] * count,
            )


def test_duties_of_the_reference_have_these_digests() -> None:
    """The rows of a signing database that the published node wrote, against the proposal of the same slot."""
    count = 0
    by_input = {item.row["tx"]["input"]: item for item in ALL}
    for row in rows("ha_duties"):
        if row["propose"] is None:
            continue
        call = by_input[row["propose"]["input"]].call if row["propose"]["input"] in by_input else _call(row)
        wanted = {
            "ATTESTATION": digests.attestation(call.header, call.archive_root),
            "ATTESTATIONS_AND_SIGNERS": digests.attestations_and_signers(call.attestations, call.signers),
            "CHECKPOINT_PROPOSAL": digests.checkpoint_proposal(call.header, call.archive_root),
        }
        if row["block"]:
            wanted["BLOCK_PROPOSAL"] = _block_digest(row["block"], call)
        for duty in row["duties"]:
            if duty["duty_type"] in wanted:
                assert "0x" + wanted[duty["duty_type"]].hex() == duty["message_hash"]
                signer = recover_signer(signed_digest(wanted[duty["duty_type"]]), data_of(duty["signature"]))
                assert signer == data_of(duty["validator_address"])
                count += 1
    assert count == 62


def _call(row: dict[str, object]) -> ProposeCall:
    from tests.publishing.recorded import _call_of, in_multicall

    (_, _, data), *_ = in_multicall(data_of(row["propose"]["input"]))  # type: ignore[index]
    return _call_of(data)


def _block_digest(block: dict[str, object], call: ProposeCall) -> bytes:
    from fastnode.protocol.header import BlockHeader

    header = BlockHeader.from_json(block["header"])
    index = block["indexWithinCheckpoint"]
    archive = bytes.fromhex(block["archive"]["root"][2:])  # type: ignore[index]
    return digests.block_proposal(header, int(str(index)), call.header.in_hash, archive, ())


def test_an_invalidation_names_what_is_wrong() -> None:
    """Selectors and layout: number, offset of the attestations, offset of the committee, place."""
    item = WITH_COMMITTEE[0]
    call = InvalidateCall(number=7, attestations=item.call.attestations, committee=tuple(item.committee))
    data = call.call_data()
    assert data[:4].hex() == "af584dd3"
    assert [int.from_bytes(data[4 + at : 36 + at], "big") for at in (0, 32)] == [7, 96]
    bad = InvalidateCall(number=7, attestations=item.call.attestations, committee=tuple(item.committee), bad=2)
    data = bad.call_data()
    assert data[:4].hex() == "ae895581"
    assert [int.from_bytes(data[4 + at : 36 + at], "big") for at in (0, 32, 96)] == [7, 128, 2]


def test_a_proof_names_each_checkpoint_s_fees() -> None:
    proof = EpochProof(
        start=3,
        end=4,
        previous_archive=b"\1" * 32,
        end_archive=b"\2" * 32,
        out_hash=b"\3" * 32,
        prover_id=b"\4" * 20,
        fees=((b"\5" * 20, 9), (b"\6" * 20, 10)),
        blob_inputs=bytes(192),
    )
    data = proof.call_data()
    assert data[:4].hex() == "d8ea4277"
    words = [int.from_bytes(data[at : at + 32], "big") for at in range(4, len(data), 32)]
    assert words[0] == 32
    content = words[1:]
    assert content[:2] == [3, 4]
    assert content[6] == 10 * 32
    fees = content[content[6] // 32 :]
    assert fees[0] == 64
    assert fees[1:65] == [int.from_bytes(b"\5" * 20, "big"), 9, int.from_bytes(b"\6" * 20, "big"), 10] + [0] * 60
    with pytest.raises(ValueError, match="checkpoints 3 to 5 with 2 fees"):
        EpochProof(
            start=3,
            end=5,
            previous_archive=b"",
            end_archive=b"",
            out_hash=b"",
            prover_id=b"\4" * 20,
            fees=proof.fees,
            blob_inputs=b"",
        )


HEADER = CheckpointHeader(
    last_archive_root=b"\11" * 32,
    block_headers_hash=b"\12" * 32,
    blobs_hash=b"\13" * 32,
    in_hash=b"\14" * 32,
    epoch_out_hash=b"\15" * 32,
    slot_number=16,
    timestamp=17,
    coinbase=b"\22" * 20,
    fee_recipient=b"\23" * 32,
    gas_fees=GasFees(20, 21),
    total_mana_used=22,
    accumulated_fees=23,
)
PROOF = EpochProof(
    start=3,
    end=4,
    previous_archive=b"\1" * 32,
    end_archive=b"\2" * 32,
    out_hash=b"\3" * 32,
    prover_id=b"\4" * 20,
    fees=((b"\5" * 20, 9), (b"\6" * 20, 10)),
    blob_inputs=bytes(192),
    previous_inbox=b"\7" * 32,
    proof=b"proof",
)


def words_of(data: bytes) -> list[int]:
    """Those of the tuple that is the only argument."""
    words = [int.from_bytes(data[at : at + 32], "big") for at in range(4, len(data), 32)]
    assert words[0] == 32
    return words[1:]


def words_of_header(header: CheckpointHeader) -> list[int]:
    fields = (header.last_archive_root, header.block_headers_hash, header.blobs_hash, header.in_hash)
    hashes = [int.from_bytes(field, "big") for field in (*fields, header.epoch_out_hash)]
    payers = [int.from_bytes(field, "big") for field in (header.coinbase, header.fee_recipient)]
    return [*hashes, 16, header.timestamp, *payers, 20, 21, 22, 23]


def test_a_proof_of_5_x_has_the_headers_in_place_of_the_fees() -> None:
    headers = (HEADER, replace(HEADER, timestamp=18))
    data = replace(PROOF, headers=headers).call_data()
    assert data[:4].hex() == "069d1525"
    content = words_of(data)
    assert content[:2] == [3, 4]
    assert content[2:6] == [int.from_bytes(field, "big") for field in (b"\1" * 32, b"\2" * 32, b"\3" * 32, b"\4" * 20)]
    assert content[6] == 10 * 32
    listed = content[content[6] // 32 :]
    assert listed[:27] == [2, *words_of_header(headers[0]), *words_of_header(headers[1])]
    assert content[content[9] // 32 :][:2] == [5, int.from_bytes(b"proof".ljust(32, b"\0"), "big")]


def test_a_proof_of_6_x_has_the_rolling_hashes_and_whole_headers() -> None:
    members = {each.name: getattr(HEADER, each.name) for each in fields(HEADER)}
    headers = tuple(RollingCheckpointHeader(**members | {"in_hash": bytes([value]) * 32}) for value in (8, 9))
    content = words_of(replace(PROOF, headers=headers).call_data())
    assert content[:2] == [3, 4]
    roots = (b"\1", b"\2", b"\3", b"\7", b"\x09")
    assert content[2:8] == [int.from_bytes(field * 32, "big") for field in roots] + [int.from_bytes(b"\4" * 20, "big")]
    fees, listed, _, _, proof = (content[at // 32 :] for at in content[8:13])
    assert fees[0] == 0
    assert listed[:27] == [2, *words_of_header(headers[0]), *words_of_header(headers[1])]
    assert proof[:2] == [5, int.from_bytes(b"proof".ljust(32, b"\0"), "big")]


def test_a_proof_has_a_header_of_each_checkpoint() -> None:
    with pytest.raises(ValueError, match="checkpoints 3 to 4 with 1 headers"):
        replace(PROOF, headers=(HEADER,))
