"""Class ids, addresses, and the logs that publish classes and instances."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.merkle import poseidon2_of

from fastnode.errors import DecodeError
from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import (
    CONTRACT_CLASS_PUBLISHED_MAGIC,
    CONTRACT_INSTANCE_UPDATED_MAGIC,
)
from fastnode.protocol.contracts import (
    INSTANCE_PUBLISHED_TAG,
    ContractClassPublic,
    ContractInstance,
    ContractInstanceUpdate,
    PublicKeys,
    contract_address,
    contract_class_id,
    contract_events,
    decode_class_published,
    decode_instance_published,
    decode_instance_updated,
    partial_address,
    private_functions_root,
    protocol_contracts_hash,
    public_bytecode_chunks,
    public_bytecode_commitment,
)
from fastnode.protocol.effects import ContractClassLog, PrivateLog, PublicLog, TxEffect
from fastnode.protocol.fields import MODULUS, MODULUS_BYTES, ZERO_FIELD, field_from_int, field_texts, hex_text
from fastnode.protocol.releases import FOUR

CLASS_REGISTRY = field_from_int(3)
INSTANCE_REGISTRY = field_from_int(2)
fields = st.integers(0, MODULUS - 1).map(field_from_int)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


# ---- class ids ------------------------------------------------------------------------------------


def test_class_ids_are_those_of_the_reference(misc_vectors: dict[str, Any]) -> None:
    for vector in misc_vectors["classes"]:
        length = vector["bytecodeLength"]
        bytecode = bytes((i * 73 + 5) & 255 for i in range(length))
        if "packedFields" in vector:  # the largest ones are left out
            assert field_texts(field_from_int(length) + public_bytecode_chunks(bytecode)) == vector["packedFields"]
        commitment = public_bytecode_commitment(bytecode)
        assert hex_text(commitment) == vector["commitment"]
        artifact_hash, functions_root = _bytes(vector["artifactHash"]), _bytes(vector["privateFunctionsRoot"])
        assert hex_text(contract_class_id(artifact_hash, functions_root, commitment)) == vector["classId"]


@given(st.binary(max_size=200))
def test_bytecode_is_read_back_from_its_chunks(bytecode: bytes) -> None:
    chunks = public_bytecode_chunks(bytecode)
    assert b"".join(chunks[i + 1 : i + 32] for i in range(0, len(chunks), 32))[: len(bytecode)] == bytecode
    assert set(chunks[::32]) <= {0}


def test_the_length_of_bytecode_is_part_of_its_commitment() -> None:
    assert public_bytecode_commitment(b"\1") != public_bytecode_commitment(b"\1\0")


def test_no_private_functions_have_the_root_of_the_reference(misc_vectors: dict[str, Any]) -> None:
    assert hex_text(private_functions_root([])) == misc_vectors["emptyPrivateFunctionsRoot"]


def test_private_functions_are_ordered_by_selector() -> None:
    functions = [(7, field_from_int(1)), (3, field_from_int(2))]
    assert private_functions_root(functions) == private_functions_root(functions[::-1])
    level = [poseidon2_of([field_from_int(v) for v in leaf]) for leaf in ((1389398688, 3, 2), (1389398688, 7, 1))]
    level += [poseidon2_of([ZERO_FIELD] * 2)] * 126
    while len(level) > 1:
        level = [poseidon2_of(level[i : i + 2]) for i in range(0, len(level), 2)]
    assert private_functions_root(functions) == level[0]
    with pytest.raises(ValueError, match="129 private functions, at most 128 allowed"):
        private_functions_root([(i, ZERO_FIELD) for i in range(129)])


# ---- addresses --------------------------------------------------------------------------------------


def test_addresses_are_those_of_the_reference(misc_vectors: dict[str, Any]) -> None:
    instances = misc_vectors["instances"] + [p["instance"] for p in misc_vectors["protocolContracts"]]
    assert len(instances) == 10
    for vector in instances:
        keys = PublicKeys.from_json(vector["publicKeys"])
        assert hex_text(keys.to_buffer()) == vector["publicKeysBuffer"]
        assert hex_text(keys.hash()) == vector["publicKeysHash"]
        partial = partial_address(
            *(_bytes(vector[k]) for k in ("originalContractClassId", "salt", "initializationHash", "deployer"))
        )
        assert hex_text(partial) == vector["partialAddress"]
        assert hex_text(contract_address(keys, partial)) == vector["address"]


def test_protocol_contracts_have_the_ids_of_the_reference(misc_vectors: dict[str, Any]) -> None:
    for vector in misc_vectors["protocolContracts"]:
        parts = (_bytes(vector[k]) for k in ("artifactHash", "privateFunctionsRoot", "publicBytecodeCommitment"))
        assert hex_text(contract_class_id(*parts)) == vector["classId"]
    derived = [_bytes(text) for text in misc_vectors["protocolContractsList"]["derivedAddresses"]]
    assert hex_text(protocol_contracts_hash(derived)) == misc_vectors["protocolContractsHash"]
    assert hex_text(protocol_contracts_hash(derived[:6])) == misc_vectors["protocolContractsHash"]


def test_no_keys_at_all_hash_to_zero() -> None:
    assert PublicKeys(*[bytes(64)] * 4).hash() == ZERO_FIELD


def test_a_viewing_key_off_the_curve_has_no_address() -> None:
    keys = PublicKeys(*[field_from_int(1) + field_from_int(1)] * 4)
    with pytest.raises(DecodeError, match="not a point of the curve"):
        contract_address(keys, ZERO_FIELD)


def test_a_key_with_a_coordinate_above_the_modulus_is_refused() -> None:
    keys = PublicKeys(*[bytes(64)] * 4).to_json()
    keys["masterTaggingPublicKey"] = hex_text(ZERO_FIELD + MODULUS_BYTES)
    with pytest.raises(DecodeError, match=r"^i\.masterTaggingPublicKey: a coordinate is not below"):
        PublicKeys.from_json(keys, "i")


# ---- the recorded contracts -----------------------------------------------------------------------


def test_recorded_classes_and_instances_hold_and_are_written_as_they_were_read(
    sample_records: list[dict[str, Any]],
) -> None:
    genesis = sample_records[1]
    for number, record in enumerate(genesis["contractClasses"]):
        published = ContractClassPublic.from_json(record, f"contractClasses[{number}]")
        assert published.computed_id() == published.id
        assert orjson.dumps(published.to_json()) == orjson.dumps(record)
    derived = []
    for record in genesis["contractInstances"]:
        instance = ContractInstance.from_json(record)
        assert orjson.dumps(instance.to_json()) == orjson.dumps(record)
        derived.append(hex_text(instance.computed_address(FOUR)))
    assert len(derived) >= 5


def _effects(blocks: list[L2Block]) -> Iterator[TxEffect]:
    for block in blocks:
        yield from block.body.tx_effects


def test_every_recorded_publication_holds(sample_blocks: list[L2Block]) -> None:
    classes, instances = [], []
    for effect in _effects(sample_blocks):
        events = contract_events(effect, FOUR)
        assert events.rejected == ()
        classes += events.classes
        instances += events.instances
    assert classes
    assert instances
    assert {instance.original_contract_class_id for instance in instances} & {found.id for found in classes}


# ---- events -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def class_log(sample_blocks: list[L2Block]) -> ContractClassLog:
    """One with some bytecode: a class without public functions has none."""
    logs = (log for effect in _effects(sample_blocks) for log in effect.contract_class_logs)
    return next(log for log in logs if log.emitted_length > 100)


@pytest.fixture(scope="module")
def instance_log(sample_blocks: list[L2Block]) -> PrivateLog:
    logs = (log for effect in _effects(sample_blocks) for log in effect.private_logs)
    return next(log for log in logs if log.fields[0] == INSTANCE_PUBLISHED_TAG)


def _with_version(log: PrivateLog, version: int) -> PrivateLog:
    return dataclasses.replace(log, fields=(*log.fields[:2], field_from_int(version), *log.fields[3:]))


def _with_field(log: ContractClassLog, position: int, value: int) -> ContractClassLog:
    start = position * 32
    padded = log.padded
    return dataclasses.replace(log, fields=padded[:start] + field_from_int(value) + padded[start + 32 :])


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (1, 5, "^Invalid contract class id: computed 0x[0-9a-f]{64} but event broadcasted 0x0+5$"),
        (2, 2, "^Unexpected contract class version 2$"),
        (2, 1 << 60, "^Value 1000000000000000 greater than than max safe integer$"),
        (3, 1, "^Invalid contract class id: "),
        (5, 1 << 200, "greater than than max safe integer$"),
        (5, (1 << 53) - 1, "^Input buffer exceeds maximum size: got 3018 but max is 3000$"),
        (5, 2999 * 31 + 1, "^Input buffer exceeds maximum size: got 3001 but max is 3000$"),
        (5, 2999 * 31, "^Invalid contract class id: "),
        (9, 1, "^Invalid contract class id: "),
    ],
)
def test_a_class_whose_log_was_changed_is_refused(
    class_log: ContractClassLog, position: int, value: int, reason: str
) -> None:
    assert decode_class_published(class_log).computed_id() == class_log.padded[32:64]
    with pytest.raises(DecodeError, match=reason):
        decode_class_published(_with_field(class_log, position, value))


def emitted_class_log(bytecode: bytes) -> ContractClassLog:
    """As the registry emits it: without the zero fields at its end."""
    artifact, functions = field_from_int(5), field_from_int(6)
    class_id = contract_class_id(artifact, functions, public_bytecode_commitment(bytecode))
    head = [field_from_int(CONTRACT_CLASS_PUBLISHED_MAGIC), class_id, field_from_int(1), artifact, functions]
    log = b"".join(head) + field_from_int(len(bytecode)) + public_bytecode_chunks(bytecode)
    emitted = -(-len(log.rstrip(b"\0")) // 32)
    return ContractClassLog(CLASS_REGISTRY, log[: 32 * emitted], emitted)


@given(st.binary(max_size=70), st.integers(0, 100))
def test_bytecode_may_end_with_any_number_of_zeros(bytecode: bytes, zeros: int) -> None:
    """Chunks of 31 zero bytes at the end are zero fields of the log, which do not come with it."""
    log = emitted_class_log(bytecode + bytes(zeros))
    published = decode_class_published(log)
    assert published.packed_bytecode == bytecode + bytes(zeros)
    effect = TxEffect(0, ZERO_FIELD, 0, (), (), (), (), (), (), (log,))
    assert contract_events(effect, FOUR).classes == (published,)


def test_the_longest_bytecode_has_2999_chunks() -> None:
    longest = b"\1" + bytes(2999 * 31 - 1)
    assert decode_class_published(emitted_class_log(longest)).packed_bytecode == longest


@pytest.mark.parametrize("position", range(1, 15))
def test_an_instance_whose_log_was_changed_is_refused(instance_log: PrivateLog, position: int) -> None:
    decode_instance_published(instance_log, FOUR)
    changed = list(instance_log.fields)
    changed[position] = field_from_int((int.from_bytes(changed[position], "big") + 1) % MODULUS)
    with pytest.raises(
        DecodeError, match=r"not that of its content|Unexpected contract instance version 2|not a point of the curve"
    ):
        decode_instance_published(PrivateLog(tuple(changed), 15), FOUR)


@pytest.mark.parametrize("length", [1, 14, 16])
def test_the_length_of_an_instance_log_is_not_looked_at(instance_log: PrivateLog, length: int) -> None:
    """As by the published node, which reads its fields."""
    said = decode_instance_published(PrivateLog(instance_log.fields, 15), FOUR)
    assert decode_instance_published(PrivateLog(instance_log.fields, length), FOUR) == said


def _update_log(*values: int, contract: bytes = INSTANCE_REGISTRY) -> PublicLog:
    return PublicLog(contract, tuple(map(field_from_int, (CONTRACT_INSTANCE_UPDATED_MAGIC, *values))))


def test_an_update_says_which_class_holds_when() -> None:
    update = decode_instance_updated(_update_log(10, 11, 12, 1000))
    one, two, original = field_from_int(11), field_from_int(12), field_from_int(99)
    assert update == ContractInstanceUpdate(field_from_int(10), one, two, 1000)
    assert update.class_id_at(999, original) == one
    assert update.class_id_at(1000, original) == two
    first = dataclasses.replace(update, previous_class_id=ZERO_FIELD)
    assert first.class_id_at(999, original) == original


def test_a_malformed_update_is_refused() -> None:
    with pytest.raises(DecodeError, match="4 fields, expected 5"):
        decode_instance_updated(_update_log(10, 11, 12))
    with pytest.raises(DecodeError, match="does not fit 64 bits"):
        decode_instance_updated(_update_log(10, 11, 12, 1 << 64))


def test_events_that_do_not_hold_are_reported_and_the_others_kept(
    class_log: ContractClassLog, instance_log: PrivateLog
) -> None:
    effect = TxEffect(
        revert_code=0,
        tx_hash=ZERO_FIELD,
        transaction_fee=0,
        note_hashes=(),
        nullifiers=(),
        l2_to_l1_msgs=(),
        public_data_writes=(),
        private_logs=(_with_version(instance_log, 9), instance_log),
        public_logs=(
            _update_log(1, 2),
            _update_log(1, 2, 3, 4),
            _update_log(1, 2, 3, 4, contract=CLASS_REGISTRY),
            PublicLog(INSTANCE_REGISTRY, ()),
        ),
        contract_class_logs=(_with_field(class_log, 1, 5),),
    )
    events = contract_events(effect, FOUR)
    assert events.classes == ()
    assert [found.address for found in events.instances] == [instance_log.fields[1]]
    assert [found.address for found in events.updates] == [field_from_int(1)]
    assert [text.partition(":")[0] for text in events.rejected] == [
        "Invalid contract class id",
        "Unexpected contract instance version 9",
        "instance updated",
    ]


def test_only_logs_of_the_registries_are_events(class_log: ContractClassLog) -> None:
    elsewhere = dataclasses.replace(class_log, contract_address=INSTANCE_REGISTRY)
    unmarked = _with_field(class_log, 0, CONTRACT_CLASS_PUBLISHED_MAGIC - 1)
    for log in (elsewhere, unmarked):
        effect = TxEffect(0, ZERO_FIELD, 0, (), (), (), (), (), (), (log,))
        assert contract_events(effect, FOUR).classes == contract_events(effect, FOUR).rejected == ()


# ---- JSON -----------------------------------------------------------------------------------------------

points = st.tuples(fields, fields).map(b"".join)
instances = st.builds(
    ContractInstance, fields, st.just(1), fields, fields, fields, fields, fields, st.builds(PublicKeys, *[points] * 4)
)
classes = st.builds(
    ContractClassPublic,
    fields,
    st.just(1),
    fields,
    fields,
    st.binary(max_size=100),
    l2_block_number=st.none() | st.integers(0, (1 << 32) - 1),
)


@given(instances)
def test_an_instance_survives_json(instance: ContractInstance) -> None:
    assert ContractInstance.from_json(orjson.loads(orjson.dumps(instance.to_json()))) == instance


@given(classes)
def test_a_class_survives_json(published: ContractClassPublic) -> None:
    assert ContractClassPublic.from_json(orjson.loads(orjson.dumps(published.to_json()))) == published


def test_unknown_versions_and_oversized_bytecode_are_refused(sample_records: list[dict[str, Any]]) -> None:
    record = sample_records[1]["contractClasses"][0]
    with pytest.raises(DecodeError, match=r"^class\.version: 2 is unknown, expected 1$"):
        ContractClassPublic.from_json({**record, "version": 2}, "class")
    with pytest.raises(DecodeError, match=r"^class\.packedBytecode: 96001 bytes, at most 96000 allowed$"):
        ContractClassPublic.from_json({**record, "packedBytecode": "AAAA" * 32_000 + "AA=="}, "class")
    with pytest.raises(DecodeError, match=r"^class\.privateFunctions\[0\]: expected an object"):
        ContractClassPublic.from_json({**record, "privateFunctions": [1]}, "class")
