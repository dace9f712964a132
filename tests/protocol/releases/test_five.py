"""Types of release 5.x: hashes, addresses and headers of vectors, and of checkpoints that contracts of 5.x took."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from fastnode.errors import DecodeError
from fastnode.protocol.checkpoint import CheckpointHeader, block_headers_hash
from fastnode.protocol.contracts import (
    ContractInstance,
    HashedPublicKeys,
    contract_address,
    contract_class_id,
    partial_address,
    private_functions_root,
    protocol_contracts_hash,
)
from fastnode.protocol.ethereum import (
    SigningDomain,
    attested_digest,
    payload_digest,
    recover_signer,
    with_recovery_byte,
)
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import FIVE, FOUR
from fastnode.world_state.genesis import genesis_of

Json = dict[str, Any]
FIXTURES = ("empty_checkpoint_1", "single_tx_checkpoint_1", "mixed_checkpoint_1", "mixed_checkpoint_2")


def raw(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


@pytest.fixture(scope="module")
def vectors(data_directory: Path) -> list[Json]:
    lines = gzip.decompress((data_directory / "release-5" / "types.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def of_kind(vectors: list[Json], kind: str) -> Iterator[Json]:
    found = [vector for vector in vectors if vector["kind"] == kind]
    assert len(found) >= 8
    yield from found


def fixture_header(directory: Path, name: str) -> tuple[CheckpointHeader, Json]:
    checkpoint = json.loads(gzip.decompress((directory / "release-5" / f"{name}.json.gz").read_bytes()))["checkpoint"]
    record = dict(checkpoint["header"])
    record["epochOutHash"] = record.pop("outHash")
    record["timestamp"] = str(record["timestamp"])
    record["gasFees"] = {key: str(value) for key, value in record["gasFees"].items()}
    for key in ("totalManaUsed", "accumulatedFees"):
        record[key] = f"0x{int(record[key]):064x}"
    return CheckpointHeader.from_json(record), checkpoint


def test_block_headers_hash_as_before(vectors: list[Json]) -> None:
    for vector in of_kind(vectors, "blockHeader"):
        assert BlockHeader.from_json(vector["json"]).hash() == raw(vector["hash"])


def test_checkpoint_headers_end_with_their_fees(vectors: list[Json]) -> None:
    for vector in of_kind(vectors, "checkpointHeader"):
        header = CheckpointHeader.from_json(vector["json"])
        assert header.to_buffer() == raw(vector["buffer"])
        assert header.hash() == raw(vector["hash"])
        assert CheckpointHeader.from_buffer(raw(vector["buffer"])) == header
        assert orjson.loads(orjson.dumps(header.to_json())) == vector["json"]


@pytest.mark.parametrize("length", [0, 315, 317, 347, 349, 380])
def test_a_checkpoint_header_of_another_length_is_refused(vectors: list[Json], length: int) -> None:
    buffer = raw(next(of_kind(vectors, "checkpointHeader"))["buffer"]).ljust(400, b"\0")
    with pytest.raises(DecodeError, match=f"{length} bytes"):
        CheckpointHeader.from_buffer(buffer[:length])


def test_fees_that_are_no_field_are_refused(vectors: list[Json]) -> None:
    buffer = raw(next(of_kind(vectors, "checkpointHeader"))["buffer"])
    with pytest.raises(DecodeError, match="not below the field modulus"):
        CheckpointHeader.from_buffer(buffer[:316] + b"\xff" * 32)


@pytest.mark.parametrize("name", FIXTURES)
def test_checkpoints_of_the_contracts_have_their_hash(data_directory: Path, name: str) -> None:
    header, checkpoint = fixture_header(data_directory, name)
    assert header.hash() == raw(checkpoint["headerHash"])


def test_the_hash_of_a_checkpoints_blocks_has_a_separator(vectors: list[Json]) -> None:
    for vector in of_kind(vectors, "blockHeadersHash"):
        hashes = list(map(raw, vector["blockHashes"]))
        assert block_headers_hash(hashes, FIVE.separators.block_headers) == raw(vector["hash"])
        is_alone = len(hashes) == 1
        assert (block_headers_hash(hashes, FOUR.separators.block_headers) == raw(vector["hash"])) is is_alone


def test_first_checkpoints_of_one_block_follow_the_genesis(data_directory: Path) -> None:
    """The hash of one block is the hash of all: it is the second leaf of the archive."""
    genesis = genesis_of([], FIVE.trees)
    for name in FIXTURES[:1]:
        header, _ = fixture_header(data_directory, name)
        assert header.last_archive_root == genesis.archive.root


def test_instances_of_version_2_have_their_keys_hash_and_address(vectors: list[Json]) -> None:
    for vector in of_kind(vectors, "instance"):
        instance = ContractInstance.from_json(vector["json"] | {"address": vector["address"]})
        assert instance.public_keys.hash() == raw(vector["publicKeysHash"])
        assert instance.computed_address(FIVE) == instance.address
        assert instance.to_json() == vector["json"] | {"address": vector["address"]}
        partial = partial_address(
            instance.original_contract_class_id,
            instance.salt,
            instance.initialization_hash,
            instance.deployer,
            instance.immutables_hash,
        )
        assert partial == raw(vector["partialAddress"])


def test_accounts_have_the_address_of_their_keys(vectors: list[Json]) -> None:
    for vector in of_kind(vectors, "account"):
        keys = HashedPublicKeys.from_json(vector["publicKeys"])
        assert keys.hash() == raw(vector["publicKeysHash"])
        assert contract_address(keys, raw(vector["partialAddress"])) == raw(vector["address"])


@pytest.mark.parametrize("version", [0, 3])
def test_instances_of_other_versions_are_refused(vectors: list[Json], version: int) -> None:
    record = next(of_kind(vectors, "instance"))["json"] | {"address": "0x" + "00" * 32, "version": version}
    with pytest.raises(DecodeError, match="is unknown, expected"):
        ContractInstance.from_json(record)


def test_the_protocol_contracts_have_the_hash_that_the_rollups_name(data_directory: Path) -> None:
    record = json.loads((data_directory / "release-5" / "protocol_contracts.json").read_bytes())
    keys = HashedPublicKeys.from_json(record["publicKeys"])
    derived: dict[int, bytes] = {}
    for contract in record["contracts"]:
        functions = [(int(entry["selector"], 16), raw(entry["vkHash"])) for entry in contract["privateFunctions"]]
        root = private_functions_root(functions, FIVE.separators.node)
        assert root == raw(contract["privateFunctionsRoot"])
        class_id = contract_class_id(raw(contract["artifactHash"]), root, raw(contract["publicBytecodeCommitment"]))
        assert class_id == raw(contract["classId"])
        salt, deployer = (contract[name].to_bytes(32, "big") for name in ("salt", "deployer"))
        partial = partial_address(class_id, salt, bytes(32), deployer, bytes(32))
        derived[contract["address"]] = contract_address(keys, partial)
        assert derived[contract["address"]] == raw(contract["derivedAddress"])
    assert sorted(derived) == [1, 2, 3]
    assert protocol_contracts_hash([derived[number] for number in sorted(derived)]) == FIVE.contracts_hash


def test_attestations_are_signed_for_a_chain_and_a_rollup(vectors: list[Json]) -> None:
    for vector in of_kind(vectors, "checkpointAttestation"):
        header = CheckpointHeader.from_buffer(raw(vector["checkpointHeader"]))
        archive, modifier = raw(vector["archive"]), int(vector["feeAssetPriceModifier"])
        context = vector["context"]
        domain = SigningDomain(context["chainId"], raw(context["rollupAddress"]))
        digest = payload_digest(header, archive, modifier, domain)
        assert digest == attested_digest(header, digest) == raw(vector["digest"])
        signature = with_recovery_byte(raw(vector["signature"]))
        assert recover_signer(digest, signature) == raw(vector["signer"].lower())
        for other in (domain._replace(chain_id=domain.chain_id + 1), domain._replace(rollup=b"\1" * 20)):
            assert payload_digest(header, archive, modifier, other) != digest
        with pytest.raises(DecodeError, match="for a chain and a rollup"):
            payload_digest(header, archive, modifier)
