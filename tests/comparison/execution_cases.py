"""Random cases for compare_execution.py.  A seed gives the same ones as long as this file is not changed.

bundle       a driver calls up to twenty random programs and returns the gas before and after each
tightened    the same with gas at the edge of what each took
direct       one to three random programs, called in any phase, with gas that may not do
storm        programs that leave traces, call each other and fail, in one transaction
block        one to four whole transactions: phases, private parts, limits, fees, payers, deployments, class updates
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from tests._ext.avm_programs import assemble, put, random_program
from tests.comparison.execution_outcomes import ADDRESSES, CLASSES, PAYER, Json, base_state, outcome

from fastnode._twins.avm_instructions import FF, MODULUS, TAG_BITS, U8, U32
from fastnode.kernels import poseidon2
from fastnode.protocol.constants import CONTRACT_CLASS_PUBLISHED_MAGIC
from fastnode.protocol.contracts import INSTANCE_PUBLISHED_TAG, contract_class_id, public_bytecode_commitment
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.siloing import public_leaf_slot, silo_nullifier, storage_map_slot

GAS_MAX = (1 << 32) - 1
FEE_MAX = (1 << 128) - 1
L2_GAS_MAX, DA_GAS_MAX = 6_540_000, 786_432
FIRST_NULLIFIER = 420_000
GLOBALS = {
    "chainId": 31337, "version": 4, "blockNumber": 7, "timestamp": 1000, "feePerDaGas": 2, "feePerL2Gas": 3,
}  # fmt: skip
NOT_DEPLOYED = (0x2000, MODULUS - 1, 0, 7, 11, 12)
PROTOCOL = (1, 2, 3, 4, 5, 6)
CALL_REGISTER_GAS = 9936 + 2 * 12


def number(field: bytes) -> int:
    return int.from_bytes(field, "big")


def value(source: random.Random, tag: int = FF) -> int:
    end = MODULUS if tag == FF else 1 << TAG_BITS[tag]
    edges = (0, 1, 2, end - 1, end >> 1, 255, GAS_MAX, 1 << 64, (1 << 160) - 1, 1 << 160)
    return source.choice((source.choice(edges) % end, source.randrange(end), source.randrange(min(end, 1 << 20))))


# ---- transactions -----------------------------------------------------------------------------------


def tx_of(calls: Json, **more: object) -> Json:
    return {
        "gasLimits": [10_000_000, 200_000_000],
        "teardownGasLimits": [0, 0],
        "maxFees": [10, 10],
        "priority": [0, 0],
        "gasUsed": [0, 0],
        "feePayer": PAYER,
        "first": FIRST_NULLIFIER,
        "calls": calls,
        **more,
    }


def call_of(index: int, calldata: Sequence[int] = (), **more: object) -> Json:
    return {"address": ADDRESSES[index], "sender": 0x99, "static": False, "calldata": list(calldata), **more}


def case_of(bytecodes: Sequence[bytes], txs: list[Json], source: random.Random, **more: object) -> Json:
    variables = dict(GLOBALS)
    if source.random() < 0.2:
        variables.update(
            chainId=source.choice((1, (1 << 53) - 1)),
            version=source.choice((0, GAS_MAX)),
            blockNumber=source.choice((1, GAS_MAX)),
            timestamp=source.choice((0, 1 << 32, (1 << 53) - 1, GAS_MAX)),
        )
    return {
        "globals": variables,
        "classes": {str(CLASSES[index]): bytecode.hex() for index, bytecode in enumerate(bytecodes)},
        "txs": txs,
        "collectDebugLogs": source.random() < 0.6,
        "programs": len(bytecodes),
        **more,
    }


# ---- bundles ----------------------------------------------------------------------------------------


def driver(calls: Sequence[Json]) -> bytes:
    """Calls programs one after the other; returns L2 and DA gas before and after, success and size of the result."""
    code = b"".join(put(200 + index, FF, value) for index, value in enumerate((0x11223344, 5, 0, MODULUS - 1, 77, 9)))
    for index, call in enumerate(calls):
        out = 1000 + 6 * index
        code += (
            put(1, U32, call["l2"]) + put(2, U32, call["da"]) + put(3, FF, call["address"]) + put(4, U32, call["size"])
        )
        code += assemble("GETENVVAR", out, 10) + assemble("GETENVVAR", out + 1, 11)
        code += assemble("STATICCALL" if call["static"] else "CALL", 1, 2, 3, 4, 200)
        code += assemble("GETENVVAR", out + 2, 10) + assemble("GETENVVAR", out + 3, 11)
        code += assemble("SUCCESSCOPY", out + 4) + assemble("RETURNDATASIZE", out + 5)
    return code + put(5, U32, 6 * len(calls)) + assemble("RETURN", 5, 1000)


def driven(source: random.Random, programs: Sequence[bytes], calls: Sequence[Json]) -> Json:
    code = [driver(calls), *programs]
    return case_of(code, [tx_of({"app": [call_of(0)]})], source, driven=calls, programs=len(programs))


def bundle(source: random.Random) -> Json:
    count = source.randrange(12, 21)
    calls = [
        {
            "address": ADDRESSES[index + 1],
            "l2": source.choice((150_000, 300_000, 600_000, 2_500_000)),
            "da": source.choice((100_000, 100_000, 5000, 64)),
            "static": source.random() < 0.08,
            "size": source.randrange(7) if source.random() < 0.95 else source.choice((GAS_MAX, 1000, 301)),
        }
        for index in range(count)
    ]
    case = driven(source, [random_program(source) for _ in range(count)], calls)
    # A bad debug log is the end of all of them.
    return {**case, "collectDebugLogs": source.random() < 0.3}


def tightened(source: random.Random, case: Json) -> Json | None:
    """None where the driver itself did not come to its end.  After a hundred calls its gas may not be in the record."""
    found, _ = outcome(base_state(), case)
    if found.get("revertCode") != 0:
        return None
    gas = [int(text, 16) for text in found["returns"][0]]
    calls = [dict(call) for call in case["driven"]]
    for index, call in enumerate(calls[: len(gas) // 6]):
        l2_before, da_before, l2_after, da_after = gas[6 * index : 6 * index + 4]
        used, used_da = l2_before - l2_after - CALL_REGISTER_GAS, da_before - da_after
        if 1 <= used < call["l2"]:
            call["l2"] = max(0, used + source.choice((-1, 0, 1, -source.randrange(60), -source.randrange(used))))
        else:
            call["l2"] = int(10 ** source.uniform(1, 5))
        if 0 < used_da < call["da"] and source.random() < 0.3:
            call["da"] = source.choice((used_da - 1, used_da, source.randrange(used_da)))
    programs = [bytes.fromhex(case["classes"][str(CLASSES[index + 1])]) for index in range(len(calls))]
    return driven(source, programs, calls)


def direct(source: random.Random) -> Json:
    programs = [random_program(source) for _ in range(source.choice((1, 1, 2, 3)))]
    first = call_of(0, [value(source) for _ in range(source.randrange(7))], static=source.random() < 0.08)
    others = [call_of(source.randrange(len(programs)))] if source.random() < 0.5 else []
    calls = source.choice(
        ({"app": [first, *others]}, {"app": others, "teardown": first}, {"setup": [first], "app": others})
    )
    limit = source.choice((L2_GAS_MAX, int(10 ** source.uniform(2, 6))))
    teardown = [source.choice((10_000, 70)), limit] if "teardown" in calls else [0, 0]
    limits = [source.choice((DA_GAS_MAX, 200, 64)), limit]
    return case_of(programs, [tx_of(calls, gasLimits=limits, teardownGasLimits=teardown)], source)


# ---- programs that leave traces ---------------------------------------------------------------------


def traces(source: random.Random) -> bytes:
    """A program that mostly goes well: writes, emits, calls, then returns, reverts, fails or never ends."""
    code = b""
    for _ in range(source.randrange(6)):
        code += source.choice(TRACES)(source)
    size = put(90, U32, source.randrange(8))
    endings = [size + assemble("RETURN", 90, 3)] * 7 + [size + assemble("REVERT", 90, 3)]
    endings += [put(91, U8, 0) + assemble("DIV", 91, 91, 92), assemble("JUMP", len(code))]
    return code + source.choice(endings)


def _write(source: random.Random) -> bytes:
    return put(60, FF, value(source)) + put(61, FF, source.randrange(4)) + assemble("SSTORE", 60, 61)


def _many_writes(source: random.Random) -> bytes:
    count = source.choice((8, 61, 62, 63, 64))
    return b"".join(put(60, FF, 100 + index) + assemble("SSTORE", 60, 60) for index in range(count))


def _read(source: random.Random) -> bytes:
    return put(60, FF, source.randrange(4)) + put(61, FF, source.choice(ADDRESSES[:6])) + assemble("SLOAD", 60, 61, 5)


def _nullifier(source: random.Random) -> bytes:
    return put(60, FF, source.choice((1, 2, 3, value(source)))) + assemble("EMITNULLIFIER", 60)


def _note(source: random.Random) -> bytes:
    return put(60, FF, source.randrange(5)) + assemble("EMITNOTEHASH", 60)


def _message(source: random.Random) -> bytes:
    return (
        put(60, FF, source.randrange(1 << 161)) + put(61, FF, source.randrange(9)) + assemble("SENDL2TOL1MSG", 60, 61)
    )


def _log(source: random.Random) -> bytes:
    return put(60, U32, source.choice((0, 1, 4, 30, 1000, 2045))) + assemble("EMITPUBLICLOG", 60, 1000)


def _debug_log(source: random.Random) -> bytes:
    return put(60, U8, source.randrange(8)) + put(61, U32, 2) + assemble("DEBUGLOG", 60, 0, 0, 61, 3)


def _environment(source: random.Random) -> bytes:
    return assemble("GETENVVAR", source.randrange(5, 12), source.randrange(12))


def _call(source: random.Random) -> bytes:
    code = put(60, U32, source.choice((GAS_MAX, 100_000))) + put(61, U32, source.choice((GAS_MAX, 500)))
    callees = ADDRESSES[:8] * 3 + NOT_DEPLOYED + PROTOCOL
    code += put(62, FF, source.choice(callees)) + put(63, U32, 1)
    return code + assemble(source.choice(("CALL", "CALL", "STATICCALL")), 60, 61, 62, 63, 5)


TRACES: tuple[Callable[[random.Random], bytes], ...] = (
    *(_write, _write, _read, _nullifier, _note, _message, _log, _debug_log, _environment, _call, _call),
)


def storm(source: random.Random) -> Json:
    count = source.randrange(2, 9)
    programs = [traces(source) if source.random() < 0.85 else random_program(source) for _ in range(count)]

    def some() -> Json:
        calldata = [value(source) for _ in range(source.randrange(5))]
        return call_of(source.randrange(count), calldata, static=source.random() < 0.05)

    calls: Json = {"app": [some() for _ in range(source.randrange(1, 4))]}
    if source.random() < 0.25:
        calls["teardown"] = some()
    if source.random() < 0.15:
        calls["setup"] = [some()]
    limit = source.choice((L2_GAS_MAX, int(10 ** source.uniform(5, 6.8))))
    teardown = [5000, limit] if "teardown" in calls else [0, 0]
    limits = [source.choice((DA_GAS_MAX, 1000)), limit]
    made = tx_of(calls, gasLimits=limits, teardownGasLimits=teardown, maxFees=[1 << 100, 1 << 100])
    return case_of(programs, [made], source)


# ---- blocks of whole transactions ---------------------------------------------------------------------


def class_log(source: random.Random, bytecode: bytes) -> tuple[int, list[object]]:
    """The id of a class, and the log that publishes it as the registry emits it; sometimes a wrong one."""
    bytecode += bytes(source.choice((0, 0, 0, 1, 31, 62)))
    artifact, functions = source.randrange(MODULUS), source.randrange(MODULUS)
    commitment = public_bytecode_commitment(bytecode)
    class_id = number(contract_class_id(field_from_int(artifact), field_from_int(functions), commitment))
    chunks = [number(bytecode[start : start + 31].ljust(31, b"\0")) for start in range(0, len(bytecode), 31)]
    fields = [CONTRACT_CLASS_PUBLISHED_MAGIC, class_id, 1, artifact, functions, len(bytecode), *chunks]
    if source.random() < 0.06:
        place = source.choice((0, 1, 2, 5))
        fields[place] = source.choice(((fields[place] + 1) % MODULUS, 0, 93_000, GAS_MAX, 1 << 60))
    while fields[-1] == 0:
        fields.pop()
    return class_id, [source.choice((3,) * 40 + (2, 0x1000)), fields]


def instance_log(source: random.Random, address: int, class_id: int) -> list[object]:
    version = 1 if source.random() < 0.98 else 2
    head = [number(INSTANCE_PUBLISHED_TAG), address, version, source.randrange(MODULUS), class_id]
    return [head + [source.randrange(MODULUS) for _ in range(10)], 15]


def deployment(source: random.Random, part: Json, address: int) -> None:
    """Make a private part publish a class and an instance of it."""
    class_id, log = class_log(source, traces(source))
    if source.random() < 0.9:
        part["classLogs"] = [log]
    part["privateLogs"] = [instance_log(source, address, class_id if source.random() < 0.95 else CLASSES[1])]
    if source.random() < 0.93:
        deployed = number(silo_nullifier(field_from_int(2), field_from_int(address)))
        part["nullifiers"] = [*part.get("nullifiers", []), deployed]


def private_part(source: random.Random) -> Json:
    chance = source.random()
    if chance < 0.6:
        return {}
    notes, nullifiers, messages = source.randrange(3), source.randrange(3), source.randrange(2)
    if chance > 0.8:
        notes, nullifiers, messages = source.choice(((64, 0, 0), (62, 1, 0), (0, 61, 0), (0, 62, 0), (0, 0, 8)))
    known = [number(silo_nullifier(field_from_int(0x1000), field_from_int(1))), 1111, 5, FIRST_NULLIFIER]
    return {
        "notes": [source.randrange(1, MODULUS) for _ in range(notes)],
        "nullifiers": [
            source.choice(known) if source.random() < 0.03 else source.randrange(1 << 200, 1 << 201)
            for _ in range(nullifiers)
        ],
        "messages": [
            [source.choice((0, 0x1000, 5)), source.randrange(1 << 160), source.randrange(1, MODULUS)]
            for _ in range(messages)
        ],
    }


def class_update(source: random.Random, case: Json, index: int) -> None:
    """Put an update of a contract's class into the registry's storage."""
    now, address = case["globals"]["timestamp"], ADDRESSES[index]
    base = number(storage_map_slot(field_from_int(1), field_from_int(address)))
    change_at = source.choice((0, 1, now - 1, now, now + 1, GAS_MAX)) & GAS_MAX
    packed = (source.choice((0, source.randrange(1 << 80), 1 << 32)) << 32 | change_at) % MODULUS
    previous, post = source.choice((0, CLASSES[8])), source.choice((0, CLASSES[10]))
    words = [packed, previous, post]
    words.append(number(poseidon2.hash_fields(b"".join(field_from_int(word) for word in words))))
    registry = field_from_int(2)
    case["state"]["leaves"] += [
        [number(public_leaf_slot(registry, field_from_int((base + offset) % MODULUS))), word]
        for offset, word in enumerate(words)
    ]
    # The published node's machine asks its archiver for the class, not the registry.
    current = (previous if now < change_at else post) or CLASSES[index]
    contract = {"address": address, "classId": CLASSES[index], "deployer": 0x32 + index, "initHash": 0x90 + index}
    case["contracts"].append({**contract, "currentClassId": current})


def block_tx(source: random.Random, variables: Json, place: int, deployed: list[int]) -> Json:
    def some() -> Json:
        calldata = [value(source) for _ in range(source.choice((0, 1, 4, 4, 299, 301)))]
        call = call_of(source.randrange(8), calldata, sender=source.choice((0x99, 0, MODULUS - 1)))
        call["static"] = source.random() < 0.06
        if source.random() < 0.06:
            call["address"] = source.choice(NOT_DEPLOYED + PROTOCOL)
        elif deployed and source.random() < 0.2:
            call["address"] = source.choice(deployed)
        return call

    parts = {"nr": private_part(source), "rv": private_part(source)}
    for part in parts.values():
        if source.random() < 0.15:
            deployed.append(0x9000 + source.randrange(1000))
            deployment(source, part, deployed[-1])
    calls: Json = {
        "setup": [call_of(source.randrange(8)) for _ in range(source.choice((0, 0, 0, 1, 2)))],
        "app": [some() for _ in range(source.choice((0, 1, 1, 2, 3, 32)))],
    }
    if source.random() < 0.35 or not (calls["setup"] or calls["app"]):
        calls["teardown"] = some()
    tx = tx_of(calls, first=FIRST_NULLIFIER + place, hash=100 + place, **parts)
    tx["gasLimits"] = [source.choice((DA_GAS_MAX, DA_GAS_MAX, 600)), source.choice((L2_GAS_MAX, L2_GAS_MAX, 1_000_000))]
    tx["gasUsed"] = [512, 540_000]
    if "teardown" in calls:
        tx["teardownGasLimits"] = teardown = [source.choice((10_000, 100, 0)), source.choice((500_000, 1000, 0))]
        tx["gasUsed"] = [512 + teardown[0], 540_000 + teardown[1]]
    if source.random() < 0.05:
        tx["gasUsed"] = [source.choice((0, DA_GAS_MAX, GAS_MAX)), source.choice((0, L2_GAS_MAX, GAS_MAX))]
    fees = [variables["feePerDaGas"], variables["feePerL2Gas"]]
    wrong = source.choice((0,) * 20 + (1, 2))
    tx["maxFees"] = [
        max(0, min(FEE_MAX, 2 * fee + 5) if wrong != kind else fee - 1) for kind, fee in enumerate(fees, 1)
    ]
    tx["priority"] = [source.choice((0, 0, 0, 1, 100, FEE_MAX)) for _ in range(2)]
    tx["feePayer"] = source.choice((PAYER,) * 16 + (0, 0x77, 5))
    if source.random() < 0.15:
        _make_private(tx)
    return tx


def _make_private(tx: Json) -> None:
    first, second = tx["nr"], tx["rv"]
    limits = {"nullifiers": 63, "notes": 64, "messages": 8, "privateLogs": 64, "classLogs": 1}
    joined = {name: [*first.get(name, []), *second.get(name, [])][:most] for name, most in limits.items()}
    tx.update(privateOnly=True, calls={}, nr=joined, rv={})


def block(source: random.Random) -> Json:
    programs = [traces(source) if source.random() < 0.75 else random_program(source) for _ in range(8)]
    if source.random() < 0.1:
        programs[0] = _many_writes(source) + put(90, U32, 0) + assemble("RETURN", 90, 3)
    case = case_of(programs, [], source, block=True, contracts=[], state={"leaves": []})
    case["skipFeeEnforcement"] = source.random() < 0.15
    if source.random() < 0.08:
        case["globals"].update(
            feePerL2Gas=source.choice((0, FEE_MAX, 1 << 64)), feePerDaGas=source.choice((0, 1 << 100))
        )
    for index in range(8):
        if source.random() < 0.05:
            class_update(source, case, index)
    deployed: list[int] = []
    count = source.choice((1, 1, 1, 2, 3, 4))
    case["txs"] = [block_tx(source, case["globals"], place, deployed) for place in range(count)]
    if source.random() < 0.2:
        case["newMessages"] = [71 + index for index in range(source.randrange(6))]
    return case


# ---- all kinds --------------------------------------------------------------------------------------


def random_cases(seed: int) -> Iterator[Json]:
    """Without end."""
    ident = seed * 10_000_000
    while True:
        source = random.Random(f"{seed}/{ident}")
        case = source.choice((bundle, direct, storm, block))(source)
        more = tightened(source, case) if "driven" in case else None
        for made in (case, more):
            if made is not None:
                yield {"id": ident, **{key: item for key, item in made.items() if key != "driven"}}
                ident += 1
