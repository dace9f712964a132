"""The registry: what logs publish, what is refused, what an undo takes back, and which class is current."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.log_index.chain import Chain, hashed, raw_keys, text, timestamp_of

from fastnode.log_index import layout
from fastnode.log_index.contracts import contract_class_id_at, contract_class_json, contract_instance_json
from fastnode.protocol import grumpkin
from fastnode.protocol.constants import (
    CONTRACT_CLASS_PUBLISHED_MAGIC,
    CONTRACT_INSTANCE_REGISTRY_ADDRESS,
    CONTRACT_INSTANCE_UPDATED_MAGIC,
)
from fastnode.protocol.contracts import (
    INSTANCE_PUBLISHED_TAG,
    ContractClassPublic,
    ContractInstance,
    PublicKeys,
    public_bytecode_chunks,
)
from fastnode.protocol.effects import ContractClassLog, PrivateLog, PublicLog
from fastnode.protocol.fields import ZERO_FIELD, field_from_int, split_fields
from fastnode.protocol.releases import FOUR

ONE = field_from_int(1)
CLASS_A, CLASS_B, CLASS_C = (hashed("class", letter) for letter in "abc")
FEE_JUICE = field_from_int(5)


def make_class(bytecode: bytes) -> ContractClassPublic:
    unnamed = ContractClassPublic(ZERO_FIELD, 1, hashed("artifact"), hashed("functions"), bytecode)
    return ContractClassPublic(
        unnamed.computed_id(), 1, unnamed.artifact_hash, unnamed.private_functions_root, bytecode
    )


def class_log(published: ContractClassPublic) -> ContractClassLog:
    head = (
        field_from_int(CONTRACT_CLASS_PUBLISHED_MAGIC),
        published.id,
        ONE,
        published.artifact_hash,
        published.private_functions_root,
        field_from_int(len(published.packed_bytecode)),
    )
    fields = b"".join(head) + public_bytecode_chunks(published.packed_bytecode)
    return ContractClassLog(FOUR.addresses.class_registry, fields, len(fields) // 32)


def make_instance(salt: int, class_id: bytes = CLASS_A) -> ContractInstance:
    x, y = grumpkin.GENERATOR
    key = field_from_int(x) + field_from_int(y)
    parts: dict[str, Any] = {
        "version": 1,
        "salt": field_from_int(salt),
        "deployer": ZERO_FIELD,
        "current_contract_class_id": class_id,
        "original_contract_class_id": class_id,
        "initialization_hash": hashed("init"),
        "public_keys": PublicKeys(key, key, key, key),
    }
    return ContractInstance(address=ContractInstance(address=ZERO_FIELD, **parts).computed_address(FOUR), **parts)


def instance_log(instance: ContractInstance) -> PrivateLog:
    fields = (
        INSTANCE_PUBLISHED_TAG,
        instance.address,
        ONE,
        instance.salt,
        instance.original_contract_class_id,
        instance.initialization_hash,
        *split_fields(instance.public_keys.to_buffer()),
        instance.deployer,
    )
    return PrivateLog((*fields, ZERO_FIELD), len(fields))


def update_log(address: bytes, previous: bytes, new: bytes, timestamp: int) -> PublicLog:
    fields = (field_from_int(CONTRACT_INSTANCE_UPDATED_MAGIC), address, previous, new, field_from_int(timestamp))
    return PublicLog(field_from_int(CONTRACT_INSTANCE_REGISTRY_ADDRESS), fields)


def current_class(chain: Chain, address: bytes) -> str:
    stored = contract_instance_json(chain.view, address)
    assert stored is not None
    current: str = json.loads(stored)["currentContractClassId"]
    return current


# ---- classes ----------------------------------------------------------------------------------


def test_a_published_class_is_found_with_its_block(chain: Chain) -> None:
    published = make_class(bytes(range(100)))
    chain.add()
    chain.add([], [class_log(published)])
    stored = contract_class_json(chain.view, published.id)
    assert stored is not None
    assert json.loads(stored) == {"l2BlockNumber": 2, **published.to_json()}


def test_a_class_whose_id_does_not_hold_is_left_out_and_told(chain: Chain, caplog: pytest.LogCaptureFixture) -> None:
    published = make_class(b"code")
    log = class_log(published)
    claimed = ContractClassLog(log.contract_address, log.fields[:32] + CLASS_A + log.fields[64:], log.emitted_length)
    chain.add([claimed])
    assert contract_class_json(chain.view, CLASS_A) is None
    assert contract_class_json(chain.view, published.id) is None
    assert "Invalid contract class id: computed" in caplog.text


def test_a_class_log_of_another_contract_publishes_nothing(chain: Chain) -> None:
    published = make_class(b"code")
    log = class_log(published)
    chain.add([ContractClassLog(FEE_JUICE, log.fields, log.emitted_length)])
    assert contract_class_json(chain.view, published.id) is None


def test_a_class_stays_until_the_block_that_first_published_it_is_undone(chain: Chain) -> None:
    published = make_class(b"code")
    chain.add([class_log(published)])
    chain.add([class_log(published)])
    chain.undo(1)
    stored = contract_class_json(chain.view, published.id)
    assert stored is not None
    assert json.loads(stored)["l2BlockNumber"] == 1
    chain.undo(1)
    assert contract_class_json(chain.view, published.id) is None


# ---- instances --------------------------------------------------------------------------------


def test_a_published_instance_is_found(chain: Chain) -> None:
    instance = make_instance(1)
    chain.add([instance_log(instance)])
    stored = contract_instance_json(chain.view, instance.address)
    assert stored is not None
    assert json.loads(stored) == instance.to_json()
    chain.undo(1)
    assert contract_instance_json(chain.view, instance.address) is None


def test_an_instance_whose_address_does_not_hold_is_left_out_and_told(
    chain: Chain, caplog: pytest.LogCaptureFixture
) -> None:
    fields = instance_log(make_instance(1)).fields
    chain.add([PrivateLog((fields[0], FEE_JUICE, *fields[2:]), 15)])
    chain.add([PrivateLog((fields[0], hashed("elsewhere"), *fields[2:]), 15)])
    assert contract_instance_json(chain.view, hashed("elsewhere")) is None
    assert caplog.text.count("is not that of its content") == 2


def test_a_viewing_key_off_the_curve_is_refused(chain: Chain, caplog: pytest.LogCaptureFixture) -> None:
    fields = instance_log(make_instance(1)).fields
    chain.add([PrivateLog((*fields[:8], ONE, ONE, *fields[10:]), 15)])
    assert not raw_keys(chain.view, [layout.CONTRACT_INSTANCE])
    assert "not a point of the curve" in caplog.text


def test_the_contracts_of_the_protocol_come_with_the_genesis(chain: Chain) -> None:
    for number in range(1, 7):
        stored = contract_instance_json(chain.view, field_from_int(number))
        assert stored is not None
        class_id = json.loads(stored)["currentContractClassId"]
        published = contract_class_json(chain.view, bytes.fromhex(class_id[2:]))
        assert published is not None
        assert json.loads(published)["l2BlockNumber"] == 0
    assert contract_instance_json(chain.view, field_from_int(7)) is None


# ---- updates ----------------------------------------------------------------------------------


def test_the_class_changes_when_its_time_has_come(chain: Chain) -> None:
    instance = make_instance(1)
    chain.add([instance_log(instance)])
    chain.add([update_log(instance.address, ZERO_FIELD, CLASS_B, timestamp_of(4))])
    for expected in (CLASS_A, CLASS_A, CLASS_B, CLASS_B):
        assert current_class(chain, instance.address) == text(expected)
        chain.add()
    chain.undo(3)
    assert current_class(chain, instance.address) == text(CLASS_A)


def test_the_newest_of_several_updates_counts(chain: Chain) -> None:
    instance = make_instance(1)
    chain.add([instance_log(instance)])
    chain.add(
        [update_log(instance.address, ZERO_FIELD, CLASS_B, timestamp_of(3))],
        [update_log(instance.address, ZERO_FIELD, CLASS_C, timestamp_of(3))],
    )
    chain.add()
    assert current_class(chain, instance.address) == text(CLASS_C)
    chain.add([update_log(instance.address, CLASS_C, CLASS_B, timestamp_of(6))])
    assert current_class(chain, instance.address) == text(CLASS_C)
    assert contract_class_id_at(chain.view, instance.address, timestamp_of(6) - 1) == CLASS_C
    assert contract_class_id_at(chain.view, instance.address, timestamp_of(6)) == CLASS_B
    chain.undo(1)
    assert contract_class_id_at(chain.view, instance.address, timestamp_of(6)) == CLASS_C
    chain.undo(2)
    assert current_class(chain, instance.address) == text(CLASS_A)


def test_an_update_names_one_instance_only(chain: Chain) -> None:
    one, other = make_instance(1), make_instance(2)
    chain.add([instance_log(one), instance_log(other), update_log(one.address, ZERO_FIELD, CLASS_B, 0)])
    assert current_class(chain, one.address) == text(CLASS_B)
    assert current_class(chain, other.address) == text(CLASS_A)
    assert contract_class_id_at(chain.view, hashed("nowhere"), 0) is None


def test_an_update_from_another_contract_means_nothing(chain: Chain) -> None:
    instance = make_instance(1)
    log = update_log(instance.address, ZERO_FIELD, CLASS_B, 0)
    chain.add([instance_log(instance), PublicLog(FEE_JUICE, log.fields)])
    assert current_class(chain, instance.address) == text(CLASS_A)


def test_an_undo_leaves_no_trace(chain: Chain) -> None:
    chain.add()
    before = raw_keys(chain.view, layout.CONTRACT_PREFIXES)
    instance = make_instance(1)
    update = update_log(instance.address, ZERO_FIELD, CLASS_B, 0)
    chain.add([class_log(make_class(b"x")), instance_log(instance), update, update])
    chain.undo(1)
    assert raw_keys(chain.view, layout.CONTRACT_PREFIXES) == before
