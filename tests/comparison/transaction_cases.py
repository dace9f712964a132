"""Random transactions for compare_transactions.py: recorded ones, changed.  A seed gives the same ones as long as
this file is not changed.

``Pieces`` is a transaction taken apart.  A change out of ``CHANGES`` bends a number in its head, an item of its arrays,
its public calls and their calldata, the shape of the binary form, its class logs, its deployments.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.comparison.json_changes import change_json
from tests.comparison.transaction_outcomes import ALLOWED, Json, bases

from fastnode.kernels import hash_threads, poseidon2
from fastnode.protocol.contracts import INSTANCE_PUBLISHED_TAG
from fastnode.protocol.fields import FIELD_BYTES, MODULUS, split_fields
from fastnode.protocol.tx import CLASS_LOG_BYTES, SEPARATOR_PUBLIC_CALLDATA, Tx
from fastnode.protocol.tx_data import SEPARATOR_PRIVATE_TX_HASH, SEPARATOR_PUBLIC_TX_HASH
from fastnode.protocol.tx_layout import USUAL

#: All bases expire late, so that most changes decide for themselves.
LATE = 2_000_000_000
EDGES = (
    0,
    1,
    2,
    16,
    17,
    (1 << 32) - 1,
    1 << 32,
    1 << 53,
    1 << 64,
    1 << 128,
    1 << 253,
    MODULUS - 1,
    MODULUS,
    (1 << 256) - 1,
)
GAS = (0, 1, 95, 96, 97, 439_999, 440_000, 539_999, 540_000, 786_432, 786_433, 6_540_000, 6_540_001, (1 << 32) - 1)
FEES = (0, 1, 2, 10**6, 1 << 64, (1 << 128) - 1)
TIMES = (0, 999_999, 1_000_000, 1_000_001, 1 << 53, (1 << 64) - 1)
LENGTHS = (0, 1, 2, 5, 6, 15, 16, 17, 3022, 3023, 3024, (1 << 32) - 1)


#: Transactions whose hashes threads compute together.
HASHED_AT_ONCE = 32


def word(value: int) -> bytes:
    return value.to_bytes(FIELD_BYTES, "big")


def any_word(source: random.Random) -> bytes:
    return word(source.choice(EDGES)) if source.random() < 0.5 else word(source.randrange(1, MODULUS))


class Pieces:
    """A transaction in pieces.  ``is_hashed``: the hash in front is that of its data, as far as there is one."""

    def __init__(self, tx: Tx) -> None:
        self.hash, self.data, self.proof = tx.hash, bytearray(tx.data.buffer), bytearray(tx.proof)
        self.class_logs = [bytearray(log) for log in tx.class_logs]
        self.calldata = [(bytearray(entry.values), entry.hash) for entry in tx.calldata]
        self.is_hashed = True
        #: Counts that are not those of what follows, by what they count.
        self.counts: dict[str, int] = {}
        self.tail, self.length = b"", -1
        self._pending: hash_threads.PendingHash | None = None
        self.put(USUAL.expiration, LATE.to_bytes(8, "big"))

    @property
    def is_public(self) -> bool:
        return self.data[USUAL.for_public] != 0

    @property
    def phases(self) -> tuple[int, ...]:
        return (USUAL.non_revertible, USUAL.revertible) if self.is_public else (USUAL.accumulated,)

    def put(self, place: int, value: bytes) -> None:
        self.data[place : place + len(value)] = value

    def start(self) -> None:
        """Let threads compute the hash, beside those of others."""
        plan, separator = (
            (USUAL.public_plan, SEPARATOR_PUBLIC_TX_HASH)
            if self.is_public
            else (USUAL.private_plan, SEPARATOR_PRIVATE_TX_HASH)
        )
        if self.is_hashed:
            with contextlib.suppress(ValueError):
                self._pending = hash_threads.start_hash(plan.run(bytes(self.data), word(separator)))

    def _computed_hash(self) -> bytes:
        if self._pending is None:
            self.start()
        pending, self._pending = self._pending, None
        try:
            return self.hash if pending is None else pending.result()
        except ValueError:
            return self.hash

    def _count(self, name: str, value: int, width: int) -> bytes:
        return (self.counts.get(name, value) % (1 << 8 * width)).to_bytes(width, "big")

    def buffer(self) -> bytes:
        return self._under(self._computed_hash())

    @property
    def size(self) -> int:
        return len(self._under(self.hash))

    def _under(self, tx_hash: bytes) -> bytes:
        parts = [tx_hash, bytes(self.data)]
        parts += [self._count("proof", len(self.proof) // FIELD_BYTES, 4), bytes(self.proof)]
        parts += [self._count("class logs", len(self.class_logs), 1), *map(bytes, self.class_logs)]
        parts.append(self._count("calldata", len(self.calldata), 1))
        for index, (values, value_hash) in enumerate(self.calldata):
            parts += [self._count(f"values {index}", len(values) // FIELD_BYTES, 4), bytes(values), value_hash]
        whole = b"".join(parts) + self.tail
        return whole if self.length < 0 else whole[: self.length]

    def to_json(self) -> Json:
        proof = self._count("proof", len(self.proof) // FIELD_BYTES, 4) + bytes(self.proof)
        return {
            "txHash": "0x" + self.hash.hex(),
            "data": base64.b64encode(self.data).decode(),
            "chonkProof": base64.b64encode(proof).decode(),
            "contractClassLogFields": [{"fields": _texts(log)} for log in self.class_logs],
            "publicFunctionCalldata": [
                {"values": _texts(values), "hash": "0x" + value_hash.hex()} for values, value_hash in self.calldata
            ],
        }


def _texts(fields: bytes | bytearray) -> list[str]:
    return ["0x" + field.hex() for field in split_fields(bytes(fields))]


# ---- changes ---------------------------------------------------------------------------------------

_U32_GAS, _U128_FEES = [value.to_bytes(4, "big") for value in GAS], [value.to_bytes(16, "big") for value in FEES]
#: Numbers of the head: where, and what may stand there; None: any field.
HEAD: Final[tuple[tuple[int, list[bytes] | None], ...]] = (
    (USUAL.chain_id, None),
    (USUAL.version, None),
    *((place, _U32_GAS) for place in range(USUAL.gas_limits, USUAL.max_fees, 4)),
    *((place, _U128_FEES) for place in range(USUAL.max_fees, USUAL.vk_tree_root, 16)),
    (USUAL.vk_tree_root, None),
    (USUAL.protocol_contracts_hash, None),
    *((place, _U32_GAS) for place in (USUAL.gas_used, USUAL.gas_used + 4)),
    (USUAL.fee_payer, None),
    (USUAL.expiration, [value.to_bytes(8, "big") for value in TIMES]),
    (USUAL.anchor_header, None),
    (USUAL.for_public, [bytes([flag]) for flag in (0, 1, 2, 255)]),
)
#: Arrays of a phase: where, bytes of an item, how many, and in an item where and which values.
_WORDS = None
_U32_LENGTHS = [value.to_bytes(4, "big") for value in LENGTHS]
ARRAYS: Final[tuple[tuple[int, int, int, tuple[tuple[int, list[bytes] | None], ...]], ...]] = (
    (USUAL.note_hashes, 32, 64, ((0, _WORDS), (0, [bytes(32)]))),
    (USUAL.nullifiers, 32, 64, ((0, _WORDS), (0, [bytes(32)]))),
    (USUAL.messages, USUAL.message_bytes, 8, ((0, [bytes(20), b"\1" * 20]), (20, _WORDS), (52, _WORDS))),
    (USUAL.private_logs, USUAL.private_log_bytes, 64, ((0, _WORDS), (480, _WORDS), (512, _U32_LENGTHS))),
    (USUAL.class_log_hashes, USUAL.class_log_hash_bytes, 1, ((0, _WORDS), (32, _U32_LENGTHS), (36, _WORDS))),
)


def _head(source: random.Random, tx: Pieces) -> None:
    place, values = source.choice(HEAD)
    tx.put(place, any_word(source) if values is None else source.choice(values))


def _noise(source: random.Random, tx: Pieces) -> None:
    tx.put(source.randrange(len(tx.data)), bytes([source.randrange(256)]))


def _array(source: random.Random, tx: Pieces) -> None:
    start, width, count, parts = source.choice(ARRAYS)
    index = source.choice((0, 0, 1, count - 1, source.randrange(count))) % count
    offset, values = source.choice(parts)
    tx.put(
        source.choice(tx.phases) + start + index * width + offset,
        any_word(source) if values is None else source.choice(values),
    )


def _nullifier_twice(source: random.Random, tx: Pieces) -> None:
    first = source.choice(tx.phases) + USUAL.nullifiers
    place = source.choice(tx.phases) + USUAL.nullifiers + FIELD_BYTES * source.randrange(64)
    tx.put(place, bytes(tx.data[first : first + FIELD_BYTES]))


#: Calls of listed and of unlisted functions: contract, selector, fields of calldata.
CALLS = (
    (1, 0x61966B7C, 4),
    (1, 0xB839DE91, 3),
    (5, 0xE7F045FF, 3),
    (1, 0x11111111, 2),
    *((address, int.from_bytes(call.selector, "big"), 2) for address, call in ALLOWED.items()),
    (78, 0, 0),
)


def _calldata(source: random.Random, tx: Pieces, selector: int, count: int) -> tuple[bytearray, bytes]:
    count = max(0, count + source.choice((0, 0, 0, 0, 1, -1, -2)))
    payer = bytes(tx.data[USUAL.fee_payer : USUAL.fee_payer + FIELD_BYTES])
    values = bytearray()
    if count:
        values += word(selector + source.choice((0, 0, 0, 1 << 32, 1 << 200)))
    for _ in range(count - 1):
        amount = word(source.choice((0, 1, 10**18, 10**20, 1 << 127, 1 << 128)))
        values += source.choice((payer, amount, any_word(source)))
    return values, _hash_of(source, bytes(values))


def _hash_of(source: random.Random, values: bytes) -> bytes:
    try:
        computed = poseidon2.hash_fields(word(SEPARATOR_PUBLIC_CALLDATA) + values)
    except ValueError:
        return any_word(source)
    return computed if source.random() < 0.9 else any_word(source)


def _call(source: random.Random, tx: Pieces) -> None:
    """One more call of some function, in any phase; often behind those that are there."""
    if not tx.is_public:
        _head(source, tx)
        return
    address, selector, count = source.choice(CALLS)
    values, value_hash = _calldata(source, tx, selector, count)
    contract = word(address)
    sender = source.choice((contract, contract, contract, bytes(32), word(MODULUS - 1), any_word(source)))
    requests = source.choice(tx.phases) + USUAL.call_requests
    width, used = USUAL.call_request_bytes, 0
    while used < USUAL.calls_max - 1 and any(tx.data[requests + used * width :][:width]):
        used += 1
    place = requests + width * (used if source.random() < 0.9 else source.randrange(32))
    if source.random() < 0.15:
        place = USUAL.teardown_request
    tx.put(place, sender + contract + bytes([source.choice((0, 0, 0, 1, 2))]) + value_hash)
    if source.random() < 0.1:  # as many entries as calls, none of which is this call's
        tx.calldata.append((bytearray(), word(1)))
    elif source.random() < 0.95:
        tx.calldata.insert(source.randrange(len(tx.calldata) + 1), (values, value_hash))


def _static_flag(source: random.Random, tx: Pieces) -> None:
    if not tx.is_public:
        return
    first = source.choice(tx.phases) + USUAL.call_requests
    tx.put(source.choice((first, USUAL.teardown_request)) + 64, bytes([source.choice((0, 1, 2, 255))]))


def _given_calldata(source: random.Random, tx: Pieces) -> None:
    which = source.randrange(5)
    if which == 0:
        count = source.choice((1, 2, 254, 255, 256, 300))
        tx.calldata += [(bytearray(any_word(source) * source.randrange(2)), any_word(source)) for _ in range(count)]
    elif not tx.calldata:
        return
    elif which == 1:
        del tx.calldata[source.randrange(len(tx.calldata))]
    elif which == 2:
        tx.calldata.append(copy.deepcopy(source.choice(tx.calldata)))
        source.shuffle(tx.calldata)
    else:
        index = source.randrange(len(tx.calldata))
        values, value_hash = tx.calldata[index]
        changed = source.choice((b"", values[:32], values + any_word(source), any_word(source) + values[32:]))
        is_right = source.random() < 0.4
        tx.calldata[index] = (bytearray(changed), _hash_of(source, bytes(changed)) if is_right else value_hash)


def _shape(source: random.Random, tx: Pieces) -> None:
    whole = tx.size
    which = source.randrange(8)
    if which == 0:
        tx.tail = source.randbytes(source.choice((1, 2, 31, 32, 100)))
    elif which == 1:
        tx.length = source.choice((source.randrange(whole), whole - 1, whole - 32, whole - 33))
    elif which == 2:
        tx.counts[source.choice(("class logs", "calldata"))] = source.choice((0, 1, 2, 3, 255))
    elif which == 3:
        tx.counts[source.choice(("proof", "values 0"))] = source.choice((0, 1, 2, 1934, 1936, 1 << 16, (1 << 32) - 1))
    elif which == 4:
        tx.hash, tx.is_hashed = source.choice((any_word(source), tx.hash)), False
    elif which == 5:
        place = FIELD_BYTES * source.randrange(len(tx.proof) // FIELD_BYTES or 1)
        tx.proof[place : place + FIELD_BYTES] = any_word(source)
    elif which == 6:
        tx.proof = source.choice((tx.proof[:-FIELD_BYTES], tx.proof + any_word(source), bytearray()))
    else:
        end = len(tx.data)
        tx.data = source.choice((tx.data[: source.randrange(end)], tx.data + bytes(source.choice((1, 32, 44165)))))


def _class_log(source: random.Random, tx: Pieces) -> None:
    if not tx.class_logs:
        tx.class_logs = [bytearray(CLASS_LOG_BYTES) for _ in range(source.choice((1, 1, 2, 3)))]
        return
    log, which = tx.class_logs[0], source.randrange(5)
    if which == 0:
        tx.class_logs.append(bytearray(log))
    elif which == 1:
        tx.class_logs.pop()
    elif which == 2:
        tx.class_logs[0] = log[: FIELD_BYTES * source.choice((0, 1, 3022))]
    else:
        place = FIELD_BYTES * source.choice((0, 1, 2, 3, 4, 5, 6, 7, 10, 3022, source.randrange(3023)))
        log[place : place + FIELD_BYTES] = source.choice((bytes(32), any_word(source)))
        if which == 3:  # under its right hash
            _hash_class_log(tx)


def _hash_class_log(tx: Pieces) -> None:
    try:
        computed = poseidon2.hash_fields(bytes(tx.class_logs[0]))
    except ValueError:
        return
    for phase in tx.phases:
        place = phase + USUAL.class_log_hashes
        if any(tx.data[place : place + USUAL.class_log_hash_bytes]):
            tx.put(place, computed)
            return


def _instance(source: random.Random, tx: Pieces) -> None:
    """A change of a deployment's log, or one that is made up."""
    logs = [phase + USUAL.private_logs + index * USUAL.private_log_bytes for phase in tx.phases for index in range(64)]
    deployed = [place for place in logs if tx.data[place : place + FIELD_BYTES] == INSTANCE_PUBLISHED_TAG]
    if deployed:
        place = source.choice(deployed)
        if source.random() < 0.3:
            tx.put(place + 512, source.choice(_U32_LENGTHS))
        else:
            tx.put(place + FIELD_BYTES * source.randrange(16), source.choice((any_word(source), bytes(32), word(1))))
    else:
        fields = [source.choice((any_word(source), word(source.randrange(MODULUS)), bytes(32))) for _ in range(15)]
        length = source.choice((0, 1, 14, 15, 16)).to_bytes(4, "big")
        tx.put(source.choice(logs[:2]), b"".join((INSTANCE_PUBLISHED_TAG, *fields)) + length)


Change = Callable[[random.Random, Pieces], None]
CHANGES: Final[Mapping[str, tuple[int, Change]]] = {
    "head": (4, _head),
    "noise": (1, _noise),
    "array": (4, _array),
    "nullifier twice": (1, _nullifier_twice),
    "call": (4, _call),
    "static flag": (1, _static_flag),
    "calldata": (2, _given_calldata),
    "shape": (3, _shape),
    "class log": (2, _class_log),
    "instance": (2, _instance),
}


def _changed(source: random.Random, base: Pieces) -> tuple[list[str], Pieces]:
    tx = copy.deepcopy(base)
    weights = [weight for weight, _ in CHANGES.values()]
    names = source.choices(list(CHANGES), weights, k=source.choice((0, 1, 1, 1, 1, 1, 2, 2, 3)))
    for name in names:
        CHANGES[name][1](source, tx)
    return names, tx


def _bases(source: random.Random) -> Callable[[], tuple[int, Pieces]]:
    """One of the recorded ones; of those with a deployment, or with a call before the fee, more than there are."""
    pieces = [Pieces(tx) for tx in bases()]
    rare = [index for index, tx in enumerate(bases()) if tx.class_logs or tx.data.setup_calls]

    def choose() -> tuple[int, Pieces]:
        index = source.choice(rare) if source.random() < 0.35 else source.randrange(len(pieces))
        return index, pieces[index]

    return choose


def binary_cases(seed: int) -> Iterator[Json]:
    source = random.Random(f"transactions {seed}")
    choose = _bases(source)
    while True:
        made = []
        for _ in range(HASHED_AT_ONCE):
            base, pieces = choose()
            names, tx = _changed(source, pieces)
            tx.start()
            made.append((base, names, tx))
        for base, names, tx in made:
            yield {"op": "tx", "changes": names, "base": base, "data": base64.b64encode(tx.buffer()).decode()}


_TEXT_CHANGES: Final[tuple[Callable[[str], Any], ...]] = (
    lambda text: text.rstrip("="),
    lambda text: text + "=",
    lambda text: text.replace("+", "-").replace("/", "_"),
    lambda text: text[:100] + "\n" + text[100:],
    lambda text: " " + text,
    lambda text: text[:100] + "!" + text[100:],
    lambda text: text[:100] + "=" + text[100:],
    lambda text: text[:-4],
    lambda text: text[:-1],
    lambda text: text + "AAAA",
    lambda text: base64.b64decode(text).hex(),
)


def json_cases(seed: int) -> Iterator[Json]:
    source = random.Random(f"transactions in JSON {seed}")
    choose = _bases(source)
    while True:
        base, tx = choose()
        names: list[str] = []
        if source.random() < 0.3:
            names, tx = _changed(source, tx)
        value: Any = tx.to_json()
        if source.random() < 0.4:
            name = source.choice(("data", "chonkProof"))
            value[name] = source.choice(_TEXT_CHANGES)(value[name])
            names.append(name)
        else:
            path, value = change_json(source, value)
            names.append(path)
        yield {"op": "txJson", "changes": names, "base": base, "json": value}
