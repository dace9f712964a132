"""Calls of every kernel with random and spoiled inputs, in the same process: `scripts/fuzz` runs them under sanitizers.

    python -m tests._ext.fuzz CALLS [SEED]

A *subject* makes some calls of one kernel.  Where the twin is fast enough it gets the same, and must say the same: a
result, or an exception of the same type.  A crash ends the process with what the sanitizer found; the line before names
the subject and its seed.
"""

from __future__ import annotations

import atexit
import base64
import itertools
import random
import string
import sys
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final

import orjson
import plyvel
from tests._ext import (
    fuzz_alone,  # noqa: F401 - before all that imports pytest
    fuzz_peers,
)
from tests._ext.avm_programs import random_case
from tests._ext.test_append_tree import HEIGHT, ZEROS, random_leaves
from tests._ext.test_append_tree import Tree as AppendTree
from tests._ext.test_avm_fuzz import run_case
from tests._ext.test_cached_responses import VIEW, Handlers, ask
from tests._ext.test_cached_responses import make as make_results
from tests._ext.test_fast_connection import Connection
from tests._ext.test_indexed_tree import Tree as IndexedTree
from tests._ext.test_indexed_tree import random_block
from tests._ext.test_older_nodes import Entries as NodeEntries
from tests._ext.test_older_nodes import entries_of as node_entries_of
from tests._ext.test_payer import Clients, paid_reader
from tests._ext.test_simple_request import everything_read, make_reader
from tests._ext.test_state_answers import State
from tests._ext.test_witness_text import Iterator as Entries
from tests.serving.sockets import post
from tests.serving.two_paths import random_pieces

from fastnode import kernels
from fastnode._twins import (
    block_text,
    effect_logs,
    encode,
    field_runs,
    grumpkin,
    indexed_tree,
    leveldb_table,
    poseidon2,
    state_answers,
    stored_text,
    tag_log,
    tree_nodes,
    witness_text,
)
from fastnode.archiver import forms
from fastnode.archiver.layout import (
    BLOCK_BY_ARCHIVE,
    BLOCK_BY_HASH,
    TRANSACTION,
    block_key,
    checkpoint_key,
    effect_key,
    encode_number,
)
from fastnode.archiver.records import BlockInfo, StoredBlock, StoredCheckpoint, StoredTransaction
from fastnode.archiver.rendering import render
from fastnode.errors import DatabaseError, ServerError
from fastnode.protocol.effects import PrivateLog, PublicLog, TxEffect
from fastnode.protocol.fields import MODULUS
from fastnode.protocol.grumpkin import GENERATOR
from fastnode.world_state.layout import LeafRecord, LeafState, inverted, u48

Random = random.Random

#: Errors with which a call may refuse.
EXPECTED: Final = (DatabaseError, ValueError, TypeError, OverflowError, LookupError, RuntimeError, MemoryError)
Subject = Callable[[Random, "Calls"], None]

HEX: Final = string.hexdigits.encode()


#: One poseidon2 of the twin takes milliseconds.
TWIN_HASHES: Final = 200

#: Folder of the databases that are read.
ENTRIES: Final = 2000

stack = ExitStack()  # closes what is open while the process runs
atexit.register(stack.close)


class Calls:
    """Number of calls of each kernel; compares them with those of the twin."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def alone(self, subject: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """The result, or the type of the exception."""
        self.made[subject] += 1
        outcome = _outcome(function, arguments, keywords)
        self.refused[subject] += isinstance(outcome, type)
        return outcome

    def alike(self, subject: str, ours: Any, twin: Any, name: str, *arguments: Any, **keywords: Any) -> Any:
        """As :meth:`alone`, and the same of the twin."""
        outcome = self.alone(subject, getattr(ours, name), *arguments, **keywords)
        expected = _outcome(getattr(twin, name), arguments, keywords)
        assert outcome == expected, f"{subject}.{name}{arguments!r} {keywords!r}: {outcome!r}, the twin: {expected!r}"
        return outcome


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    try:
        return function(*arguments, **keywords)
    except EXPECTED as error:
        return type(error)


# ---- inputs ------------------------------------------------------------------------------------------


def spoiled(dice: Random, data: bytes) -> bytes:
    """As it is in one of four cases; else with bits flipped, pieces cut out, doubled, exchanged or put in."""
    for _ in range(dice.choice((0, 1, 1, 3))):
        place = dice.randrange(len(data) + 1)
        end = min(len(data), place + dice.choice((1, 1, 4, 32, 200)))
        kind = dice.randrange(5)
        if kind == 0 and place < len(data):
            data = data[:place] + bytes([data[place] ^ 1 << dice.randrange(8)]) + data[place + 1 :]
        elif kind == 1:
            data = data[:place] + data[end:]
        elif kind == 2:
            data = data[:end] + data[place:]
        elif kind == 3:
            data = data[:place] + dice.randbytes(dice.choice((1, 2, 8, 32))) + data[place:]
        else:
            data = data[:place]
    return data


def run_of_fields(dice: Random, most: int = 20) -> bytes:
    fields = b"".join(field(dice) for _ in range(dice.randrange(most + 1)))
    return fields if dice.random() < 0.9 else spoiled(dice, fields)


def field(dice: Random) -> bytes:
    value = dice.choice((0, 1, MODULUS - 1, dice.randrange(MODULUS), dice.randrange(MODULUS), dice.randrange(1 << 64)))
    if dice.random() < 0.02:
        value = dice.choice((MODULUS, MODULUS + 1, (1 << 256) - 1))
    return value.to_bytes(32, "big")


def text_of_field(dice: Random) -> bytes:
    value = field(dice)
    made = dice.choice(
        (
            b"0x" + value.hex().encode(),
            b"0x%x" % int.from_bytes(value, "big"),
            b"%d" % int.from_bytes(value, "big"),
            b"0x" + bytes(dice.choice(HEX) for _ in range(dice.randrange(70))),
        )
    )
    return spoiled(dice, made)


def json_value(dice: Random, depth: int = 0) -> Any:
    kind = dice.randrange(9 if depth < 6 else 6)
    if kind == 6:
        return [json_value(dice, depth + 1) for _ in range(dice.choice((0, 1, 3, 12)))]
    if kind > 6:
        names = ("id", "method", "params", "i\u0064", 'q"\\', "x" * dice.randrange(40))
        return {dice.choice(names): json_value(dice, depth + 1) for _ in range(dice.randrange(5))}
    return dice.choice(
        (None, True, dice.randrange(-9, 1 << 53), dice.random(), 'a\\"]}{[,:\u20ac', text_of_field(dice).hex())
    )


# ---- subjects ----------------------------------------------------------------------------------------


def encode_calls(dice: Random, calls: Calls) -> None:
    ours = kernels.encode
    data = dice.randbytes(dice.randrange(100))
    for name in ("to_hex", "quoted_fields", "to_base64", "to_base64_narrow", "field_to_decimal"):
        calls.alike("encode", ours, encode, name, dice.choice((data, field(dice), field(dice) * 3)))
    text = text_of_field(dice)
    for name in ("from_hex", "field_from_text"):
        calls.alike("encode", ours, encode, name, dice.choice((text, text.decode("latin-1"))))
    calls.alike("encode", ours, encode, "from_base64", spoiled(dice, base64.b64encode(data)))
    calls.alike("encode", ours, encode, "field_from_int", dice.choice((-1, 0, MODULUS, dice.randrange(1 << 256))))


def json_shape_calls(dice: Random, calls: Calls) -> None:
    text = orjson.dumps(json_value(dice))
    limits = {name: dice.choice((1, 4, 1000)) for name in ("depth_max", "containers_max", "values_max")}
    calls.alone("json_shape", kernels.json_shape.measure, spoiled(dice, text), **limits)
    calls.alone("json_shape", kernels.json_shape.find_ids, text)


def usual_params_calls(dice: Random, calls: Calls) -> None:
    letters = [bytes(dice.choice(b"bfhnt") for _ in range(dice.randrange(4))) for _ in range(2)]
    shape = b"|".join(letters) if letters[1] else letters[0]
    values = []
    for _ in range(dice.randrange(5)):
        quoted = b'"' + text_of_field(dice) + b'"'
        values.append(dice.choice((b"%d" % dice.randrange(10**10), quoted, b'"latest"', b"[" + quoted + b"]", b"[]")))
    text = spoiled(dice, b"[" + b",".join(values) + b"]")
    items_max = dice.choice((0, 1, 5))
    for given in (text, *(spoiled(dice, text) for _ in range(20))):
        calls.alone("usual_params", kernels.usual_params.read, shape, given, 106, items_max)


def packed_calls(dice: Random, calls: Calls) -> None:
    texts = [dice.randbytes(dice.choice((0, 1, 100, 255, 256, 600, 65_535, 65_536))) for _ in range(dice.randrange(6))]
    are_packed = [dice.random() < 0.5 for _ in texts]
    packed = kernels.packed
    pieces = [packed.Packed(text) if is_packed else text for text, is_packed in zip(texts, are_packed, strict=True)]
    joined = calls.alone("packed", packed.join, pieces)
    calls.alone("packed", packed.join, [*texts, dice.choice((None, 7, "x"))])
    assert zlib.decompress(joined, wbits=31) == b"".join(texts)
    calls.alone("packed", packed.deflated, dice.randbytes(300))


def field_runs_calls(dice: Random, calls: Calls) -> None:
    record = run_of_fields(dice)
    calls.alike("field_runs", kernels.field_runs, field_runs, "first_non_canonical", record)
    cuts = [tuple(dice.choice((0, 1, 32, 33, 700, -1, 1 << 25)) for _ in range(3)) for _ in range(dice.randrange(4))]
    ours, twin = calls.alone("field_runs", kernels.field_runs.Cuts, cuts), _outcome(field_runs.Cuts, (cuts,), {})
    if isinstance(ours, type) or isinstance(twin, type):
        assert ours == twin, f"Cuts({cuts!r}): {ours!r}, the twin: {twin!r}"
        return
    calls.alike("field_runs", ours, twin, "join", record, dice.randbytes(dice.randrange(9)))


def poseidon2_calls(dice: Random, calls: Calls) -> None:
    ours = kernels.poseidon2
    fields = run_of_fields(dice, 40)
    arity = dice.choice((-1, 0, 1, 2, 3, 5, 16, 1 << 20, (1 << 20) + 1))
    names = ("permute", "hash_fields", "hash_pairs", "hash_leaves_3", "hash_leaves_4")
    made: list[tuple[str, tuple[Any, ...]]] = [(name, (fields,)) for name in names]
    made += [("hash_pair", (fields[:32], fields[32:64])), ("hash_runs", (fields, arity))]
    made += [("sponge_absorb", (fields[:128], fields[128:]))]
    in_use = ours.kernel_name()
    try:
        for name, arguments in made:
            outcomes = set()
            for kernel in ours.available_kernels():
                ours.use_kernel(kernel)
                outcomes.add(calls.alone("poseidon2", getattr(ours, name), *arguments))
            assert len(outcomes) == 1, f"{name}{arguments!r}: the kernels do not agree"
            if not dice.randrange(TWIN_HASHES):
                calls.alike("poseidon2", ours, poseidon2, name, *arguments)
    finally:
        ours.use_kernel(in_use)


def hash_threads_calls(dice: Random, calls: Calls) -> None:
    fields = run_of_fields(dice, 30)
    pending = calls.alone("hash_threads", kernels.hash_threads.start_hash, fields)
    if not isinstance(pending, type) and dice.random() < 0.8:
        assert calls.alone("hash_threads", pending.result) == _outcome(kernels.poseidon2.hash_fields, (fields,), {})


def _table(dice: Random) -> bytes:
    """The content of a LevelDB table of one block, as its twin describes it."""
    block = dice.randbytes(dice.randrange(200)) + bytes(4) + (1).to_bytes(4, "little")
    out = bytearray()
    handles = []
    for content in (block, bytes(4) + (1).to_bytes(4, "little")):
        checksum = leveldb_table.crc32c(content + b"\0")
        masked = (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF
        handles.append((len(out), len(content)))
        out += content + b"\0" + masked.to_bytes(4, "little")
    footer = b"".join(_varint(number) for handle in (handles[1], handles[1]) for number in handle)
    return bytes(out) + footer.ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def leveldb_table_calls(dice: Random, calls: Calls) -> None:
    table = spoiled(dice, _table(dice))
    calls.alike("leveldb_table", kernels.leveldb_table, leveldb_table, "fault_of", table)
    for name in ("crc32c", "crc32c_portable"):
        calls.alike("leveldb_table", kernels.leveldb_table, leveldb_table, name, table[: dice.randrange(300)])


@cache
def _databases() -> tuple[plyvel.DB, plyvel.DB]:
    """A sound database, and one with damaged tables; both stay until the process ends."""
    opened = []
    folder = Path(stack.enter_context(TemporaryDirectory()))
    for name in ("sound", "damaged"):
        place = str(folder / name)
        with closing(plyvel.DB(place, create_if_missing=True)) as db:
            for number in range(ENTRIES):
                db.put(b"%04d" % number, Random(number).randbytes(number % 300))
            db.compact_range()
        if name == "damaged":
            for table in (folder / name).glob("*.ldb"):
                content = bytearray(table.read_bytes())
                for place_of_damage in range(2000, len(content) // 2, 5000):  # the index is behind
                    content[place_of_damage] ^= 1
                table.write_bytes(content)
        opened.append(stack.enter_context(closing(plyvel.DB(place))))
    return opened[0], opened[1]


def stored_text_calls(dice: Random, calls: Calls) -> None:
    words = kernels.stored_text.WORDS
    fields = [b'"0x%b",' % dice.randbytes(32).hex().encode() for _ in range(3)]
    text = b"".join(dice.choice((*fields, *words[:9], dice.choice(words), dice.randbytes(5))) for _ in range(20))
    packed = spoiled(dice, calls.alike("stored_text", kernels.stored_text, stored_text, "pack", spoiled(dice, text)))
    calls.alike("stored_text", kernels.stored_text, stored_text, "unpack", packed)


def checked_reads_calls(dice: Random, calls: Calls) -> None:
    raw = dice.choice(_databases()).snapshot()
    ours = kernels.checked_reads.CheckedSnapshot(raw, lambda error: LookupError(str(error)))
    keys = [spoiled(dice, b"%04d" % dice.randrange(ENTRIES + 50)) for _ in range(8)]
    for key in keys:
        calls.alone("checked_reads", ours.get, key)
    calls.alone("checked_reads", ours.get, dice.choice((None, 7, "0001", bytearray(b"0001"))))
    names = dice.sample(("start", "stop", "prefix", "reverse", "include_key", "no_such_bound"), dice.randrange(4))
    bounds = dict(zip(names, keys, strict=False))
    calls.alone("checked_reads", _entries, ours, bounds)
    calls.alone("checked_reads", _sought, ours, keys)
    left = calls.alone("checked_reads", ours.iterator), calls.alone("checked_reads", ours.raw_iterator)
    for opened in left:
        if not isinstance(opened, type):
            opened.close()
    calls.alone("checked_reads", ours.close)
    calls.alone("checked_reads", ours.get, keys[0])
    if not isinstance(left[0], type):
        calls.alone("checked_reads", next, left[0])


def _entries(snapshot: Any, bounds: dict[str, bytes]) -> list[Any]:
    with snapshot.iterator(**bounds) as entries:
        return list(itertools.islice(entries, 200))


def _sought(snapshot: Any, keys: list[bytes]) -> list[Any]:
    with closing(snapshot.raw_iterator()) as seeks:
        return [seeks.first(key) for key in keys]


def effect_logs_calls(dice: Random, calls: Calls) -> None:
    """Spoiled effects are read or refused; the twin takes some that have another form."""
    some = lambda count: tuple(field(dice) for _ in range(dice.randrange(count)))  # noqa: E731
    public = tuple(PublicLog(field(dice), some(6)) for _ in range(dice.randrange(5)))
    private = tuple(PrivateLog((field(dice),) * 15 + (bytes(32),), dice.randrange(17)) for _ in public)
    fee = dice.randrange(1 << 90)
    whole = render(TxEffect(dice.randrange(4), field(dice), fee, some(3), some(3), some(3), (), private, public, ()))
    text = spoiled(dice, whole)
    entry = dice.randrange(9).to_bytes(4, "big") + bytes(3) + bytes([dice.randrange(5)]) + dice.randbytes(8)
    entries = spoiled(dice, entry * dice.randrange(1, 12))
    get = dice.choice(({}.get, lambda _key: text))
    for is_public in (False, True):
        if text == whole:
            calls.alike("effect_logs", kernels.effect_logs, effect_logs, "page_json", get, is_public, entries)
        else:
            calls.alone("effect_logs", kernels.effect_logs.page_json, get, is_public, entries)


def tag_log_calls(dice: Random, calls: Calls) -> None:
    size = dice.choice((1, 64, 640, 5000))
    filters = [module.TagFilter(size) for module in (kernels.tag_log, tag_log)]
    tags = [field(dice) for _ in range(dice.randrange(1, 12))]
    owner = dice.choice((b"", field(dice), b"x"))
    for tag in tags[::2]:
        key = spoiled(dice, owner + tag)
        calls.alike("tag_log", *filters, "add", key)
        calls.alike("tag_log", *filters, "may_contain", key)
    other = dice.randbytes(dice.choice((0, 64, 640, 63)))
    calls.alike("tag_log", *filters, "merge", other)
    calls.alike("tag_log", *filters, "dump")
    page, joined = dice.choice((0, 1, -1, 1 << 32)), spoiled(dice, b"".join(tags))
    found = {b"p" + owner + tag + (0).to_bytes(4, "big"): b"[1,2]" * dice.randrange(1, 300) for tag in tags[::3]}
    for module, tag_filter in ((kernels.tag_log, filters[0]), (tag_log, filters[1])):
        given = tag_filter if page else None
        outcome = calls.alone("tag_log", module.answer, given, b"p", owner, joined, page, found.get, 5)
        counted = calls.alone("tag_log", module.count_known, tag_filter, owner, joined)
        if module is kernels.tag_log:
            expected = outcome, counted
    assert (outcome, counted) == expected
    texts = [dice.choice((text_of_field(dice).decode("latin-1"), None, 7)) for _ in range(4)]
    strict = lambda value, index: field(Random(index))  # noqa: E731
    calls.alike("tag_log", kernels.tag_log, tag_log, "read_fields", texts, strict)


def append_tree_calls(dice: Random, calls: Calls) -> None:
    tree = AppendTree(kernels.append_tree, first_level=dice.choice((5, 6, 8)))
    for _ in range(dice.randrange(1, 5)):
        calls.made["append_tree"] += 3
        if len(tree.leaves) < 700:
            tree.append(random_leaves(dice, dice.choice((1, 5, 31, 33, 90))))
        if tree.leaves:
            tree.path(dice.randrange(len(tree.leaves)), len(tree.leaves), use_memory=dice.random() < 0.5)
        size = dice.choice((0, 1, len(tree.leaves), (1 << HEIGHT) - 1, 1 << 50, -1))
        tile, leaves = spoiled(dice, tree.tiles.get(0, b"")), run_of_fields(dice, 6)
        frontier = spoiled(dice, tree.frontier())
        calls.alone("append_tree", tree.nodes.append, size, frontier, tile, leaves)
        calls.alone("append_tree", tree.nodes.path, dice.randrange(-1, 1000), size, tile, spoiled(dice, tile), [])
        calls.alone("append_tree", tree.nodes.node, dice.randrange(-1, 70), dice.randrange(-1, 1 << 50))
        key = spoiled(dice, bytes([dice.randrange(12)]) + u48(dice.randrange(64)))
        calls.alone("append_tree", tree.nodes.load, [(key, spoiled(dice, field(dice)))])
        calls.alike("tree_nodes", kernels.tree_nodes, tree_nodes, "unpack_tile", tile, 32)
    calls.alone("append_tree", tree.nodes.resize, dice.choice((0, 7, 1 << 60, -1)))
    calls.alone("append_tree", kernels.append_tree.AppendNodes, HEIGHT, spoiled(dice, b"".join(ZEROS)), first_level=5)


def indexed_tree_calls(dice: Random, calls: Calls) -> None:
    tree = IndexedTree(kernels.indexed_tree, history_bytes=dice.choice((0, 700, 100_000)))
    for _ in range(dice.randrange(1, 6)):
        calls.made["indexed_tree"] += 3
        if len(tree.states) > 1 and dice.random() < 0.25:
            tree.undo()
        else:
            tree.update(*random_block(dice, len(tree.leaves)))
        block = dice.randrange(len(tree.states))
        tree.path(dice.randrange(len(tree.states[block][0])), block, use_memory=dice.random() < 0.5)
        numbers = [dice.choice((0, 1, 31, 4000, 1 << 33, -1)) for _ in range(4)]
        tile = spoiled(dice, tree.tiles.get(0, b""))
        calls.alone("indexed_tree", tree.nodes.path, *numbers[:3], tile, [])
        hashes = run_of_fields(dice, 4)
        indexes = sorted(dice.randrange(-1, 5000) for _ in range(len(hashes) // 32))
        get = lambda key, tile=tile: tile[:36]  # noqa: E731
        calls.alone("indexed_tree", tree.nodes.update, *numbers[:3], indexes, hashes, {0: tile}, get)
        key = spoiled(dice, bytes([dice.randrange(12)]) + u48(dice.randrange(64)))
        calls.alone("indexed_tree", tree.nodes.push_history, key, spoiled(dice, dice.randbytes(36)), 1 << 31)
        calls.alike("tree_nodes", kernels.tree_nodes, tree_nodes, "unpack_tile", tile, 36)
        if dice.random() < 0.3:  # what is loaded now need not fit
            calls.alone("indexed_tree", tree.nodes.load, [(key, spoiled(dice, dice.randbytes(36)))])
            return


def older_nodes_calls(dice: Random, calls: Calls) -> None:
    tree = IndexedTree(kernels.indexed_tree, history_bytes=0)
    for _ in range(dice.randrange(1, 6)):
        tree.update(*random_block(dice, len(tree.leaves)))
    stored = node_entries_of(tree, dice.choice((-1, 2, 9)))
    for key in dice.sample(sorted(stored), min(9, len(stored))):
        stored[key] = spoiled(dice, stored[key])
    data = NodeEntries(stored)
    read = kernels.older_nodes.OlderNodes(tree.nodes, b"N\0", b"H\0", b"T\0").read
    for _ in range(4):
        keys = [bytes([dice.randrange(14)]) + u48(dice.choice((0, 1, 7, 40, 5000))) for _ in range(dice.randrange(6))]
        numbers = dice.choice((0, 1, 4, 2**32 - 1, 1 << 33, -1)), dice.choice((0, 64, 4000, 1 << 12, 1 << 60, -1))
        wanted, thin = spoiled(dice, b"".join(keys)), dice.random() < 0.5
        calls.alone("older_nodes", read, wanted, *numbers, thin, data.get, data.iterators, data.make_iterator)


def tree_nodes_calls(dice: Random, calls: Calls) -> None:
    ours, node_bytes = kernels.tree_nodes, dice.choice((32, 36))
    nodes = {dice.randrange(62): dice.randbytes(node_bytes) for _ in range(dice.randrange(9))}
    tile = calls.alike("tree_nodes", ours, tree_nodes, "pack_tile", nodes)
    calls.alike("tree_nodes", ours, tree_nodes, "unpack_tile", spoiled(dice, tile), node_bytes)
    calls.alone("tree_nodes", ours.unpack_tile, spoiled(dice, tile), dice.choice((0, -1, 1, 1 << 60)))
    calls.alike("tree_nodes", ours, tree_nodes, "tile_position", dice.randrange(5), dice.randrange(1 << 48))


BLOCK_FORMS = (
    forms.BLOCK_HEADER, forms.L2_BLOCK, forms.JOINT_BLOCK, forms.BLOCK_RESPONSE, forms.BLOCK_DATA,
    forms.CHECKPOINTED_BLOCK,
)  # fmt: skip
TX_FORMS = (forms.MINED_RECEIPT, forms.INDEXED_EFFECT)
BLOCK_OPTIONS = ("includeTransactions", "includeL1PublishInfo", "includeAttestations")


def bent_form(dice: Random, known: tuple[Any, ...]) -> Any:
    """A known form, or one of segments that nobody has put together."""
    if dice.randrange(4):
        return dice.choice(known)
    return tuple(
        (dice.choice((b"{", b"", b",", "x")), dice.randrange(-1, 20), dice.choice((None, None, *BLOCK_OPTIONS)))
        for _ in range(dice.randrange(18))
    )


def block_text_calls(dice: Random, calls: Calls) -> None:
    effects = [dice.randbytes(dice.randrange(90)) for _ in range(dice.randrange(5))]
    numbers = [dice.randrange(1 << 32) for _ in range(4)]
    info = BlockInfo(numbers[0], field(dice), field(dice), *numbers[1:], dice.randrange(1 << 64), len(effects))
    record = spoiled(dice, StoredBlock(info, dice.randbytes(90), dice.randbytes(30)).encode())
    values = {effect_key(numbers[0], index): effect for index, effect in enumerate(effects)}
    values[block_key(numbers[0])] = record
    calls.alike("block_text", kernels.block_text, block_text, "header", record)
    form = bent_form(dice, BLOCK_FORMS)
    checkpoint = StoredCheckpoint(
        numbers[1], field(dice), field(dice), 0, 1, 2, -3, *(dice.randbytes(dice.randrange(40)) for _ in range(4))
    )
    if dice.randrange(4):
        values[checkpoint_key(numbers[1])] = spoiled(dice, checkpoint.encode())
    options = tuple(option for option in BLOCK_OPTIONS if dice.randrange(2))
    calls.alike("block_text", kernels.block_text, block_text, "block", form, numbers[0], values.get, options)
    values[BLOCK_BY_HASH + info.hash] = values[BLOCK_BY_ARCHIVE + info.archive_root] = encode_number(numbers[0])
    values[BLOCK_BY_HASH + bytes(32)] = dice.randbytes(dice.randrange(6))
    named = SimpleNamespace(is_development_form=dice.choice((True, False)))
    place = dice.choice((numbers[0], -1, 1 << 40, 1 << 70, None))
    ways = (place, place, info.hash, info.archive_root, bytes(32), field(dice), bytes(31), named)
    block, named_form = dice.choice(ways), dice.choice((None, bent_form(dice, BLOCK_FORMS)))
    asked_options, outcomes = dice.choice((None, None, options)), []
    for module in (kernels.block_text, block_text):
        view = SimpleNamespace(chain=SimpleNamespace(blocks=module.Blocks(values.get, 0xFFFFFFFF)))
        question = calls.alone("block_text", module.BlockQuestion, form, lambda *_: place, named_form=named_form)
        outcomes.append(isinstance(question, type) or calls.alone("block_text", question, view, block, asked_options))
    assert outcomes[0] == outcomes[1]
    mined_calls(dice, calls, numbers, values)


def mined_calls(dice: Random, calls: Calls, numbers: list[int], values: dict[bytes, bytes]) -> None:
    """Transactions of a block with effects."""
    tx_hash = dice.choice((field(dice), field(dice), spoiled(dice, field(dice))))
    transaction = StoredTransaction(numbers[0], dice.randrange(5), dice.randrange(6), field(dice), dice.randbytes(60))
    values[TRANSACTION + tx_hash] = spoiled(dice, transaction.encode())
    form, asked = bent_form(dice, TX_FORMS), dice.choice((tx_hash, tx_hash, field(dice), b"", "x", None))
    tips = dict(zip(("checkpointed", "proven", "finalized"), sorted(numbers[1:], reverse=True), strict=True))
    otherwise, outcomes = dice.choice((None, lambda *_: b"")), []
    for module in (kernels.block_text, block_text):
        blocks = module.Blocks(values.get, 0xFFFFFFFF, results=(b"success", b"", b"reverted"), **tips)
        view = SimpleNamespace(chain=SimpleNamespace(blocks=blocks))
        question = calls.alone("block_text", module.TxQuestion, form, otherwise)
        outcome = [] if isinstance(question, type) else [calls.alone("block_text", question, view, tx_hash)]
        if module is kernels.block_text:  # what is no hash at all the twin refuses in its own way
            calls.alone("block_text", module.mined, form, asked, blocks)
            calls.alone(
                "block_text", module.Blocks, values.get, numbers[0], results=dice.choice((None, [], (None,), (7,)))
            )
        outcomes.append(outcome)
    assert outcomes[0] == outcomes[1]


def witness_text_calls(dice: Random, calls: Calls) -> None:
    calls.alike(
        "witness_text",
        kernels.witness_text,
        witness_text,
        dice.choice(("membership", "message")),
        dice.randrange(1 << 64),
        run_of_fields(dice, 70),
    )
    index, block = dice.randrange(1 << 40), dice.randrange(1 << 32)
    state = LeafState(dice.randrange(1 << 32), dice.randrange(1 << 48), field(dice), dice.choice((b"", field(dice))))
    whole = LeafRecord(field(dice), state, index, dice.randrange(1 << 32), field(dice)).pack()
    tile = tree_nodes.pack_tile({3: dice.randbytes(36)})
    record, tiles = spoiled(dice, whole), {b"t" + u48(index >> 5): spoiled(dice, tile)}
    arguments = (field(dice), record, block, dice.choice((index + 1, 0)), b"t", tiles.get)
    outcomes = []
    for module, tree in ((kernels.witness_text, kernels.indexed_tree), (witness_text, indexed_tree)):
        nodes = tree.IndexedNodes(42, bytes(43 * 32), history_bytes=0)
        outcomes.append(calls.alone("witness_text", module.unchanged, nodes, *arguments))
    if record == whole and tile in tiles.values():  # of numbers that no record has they may say different things
        assert outcomes[0] == outcomes[1]
    entries = {b"p" + inverted(field(dice)): field(dice) for _ in range(dice.randrange(4))}
    wanted = field(dice)
    for module in (kernels.witness_text, witness_text):
        calls.alone("witness_text", module.low_entry, deque(), lambda: Entries(entries), b"p", wanted)


def state_answers_calls(dice: Random, calls: Calls) -> None:
    changed, inserted, block = (dice.randrange(12) for _ in range(3))
    keys = [dice.choice((field(dice), b"", spoiled(dice, field(dice)))) for _ in range(2)]
    spoils, compares_storage = dice.random() < 0.3, not dice.randrange(TWIN_HASHES)
    leaf = dice.choice((u48(dice.randrange(20)).rjust(32, b"\0"), keys[0]))
    kind, outcomes = dice.randrange(-1, 8), []
    for module in (kernels.state_answers, state_answers):
        state = State(module, changed=changed, inserted=inserted, slots=dice.choice((1, 2, 16)))
        if spoils:
            state.entries = {key: spoiled(dice, record) for key, record in state.entries.items()}
        blocks = kernels.block_text.Blocks({b"H" + bytes(32): encode_number(block)}.get, 0xFFFFFFFF)
        view = SimpleNamespace(state=dice.choice((state, None)), chain=SimpleNamespace(blocks=blocks))
        find = dice.choice((None, lambda *_: block))
        question = calls.alone("state_answers", module.StateQuestion, kind, lambda *_: b"", find=find)
        if not isinstance(question, type) and (module is kernels.state_answers or kind != state_answers.STORAGE):
            ways = (block, block, "tip", -1, 1 << 70, bytes(32), field(dice), bytes(31))
            calls.alone("state_answers", question, view, dice.choice(ways), *keys)
        if module is kernels.state_answers:
            calls.alone("state_answers", state.slots.learn, [dice.sample(keys, 2) for _ in range(dice.randrange(40))])
        answers = state.answers
        said = [
            calls.alone("state_answers", ask, keys[0], block)
            for ask in (answers.nullifier_witness, answers.low_nullifier_witness, answers.public_data_witness)
        ]
        said += [
            calls.alone("state_answers", ask, leaf, block)
            for ask in (answers.note_hash_witness, answers.message_witness, answers.block_hash_witness)
        ]
        if module is kernels.state_answers or compares_storage:
            said.append(calls.alone("state_answers", answers.storage, *keys, block))
        outcomes.append(said)
    if not spoils:
        assert all(ours == twin for ours, twin in zip(*outcomes, strict=False))


def leaf_cache_calls(dice: Random, calls: Calls) -> None:
    cache = calls.alone("leaf_cache", kernels.leaf_cache.LeafCache, dice.choice((0, 8192, 1 << 14, 1 << 20)))
    keys = sorted({field(dice) for _ in range(8)})
    for _ in range(20):
        at, asked = dice.randrange(len(keys)), spoiled(dice, dice.choice(keys))
        state = LeafState(1, 0, keys[(at + 1) % len(keys)], dice.choice((b"", keys[0])))
        index = dice.choice((at, dice.randrange(1 << 10), dice.randrange(1 << 48)))
        record = LeafRecord(keys[at], state, index, 1, keys[0]).pack()
        generation = dice.choice((cache.generation, 0, 1 << 63))
        calls.alone("leaf_cache", cache.keep_leaf, asked, keys[at], spoiled(dice, record), generation)
        calls.alone("leaf_cache", cache.keep_tile, dice.choice((index, 0, 1 << 64)), spoiled(dice, record), generation)
        found = calls.alone("leaf_cache", cache.low, spoiled(dice, dice.choice(keys)))
        assert found is None or isinstance(found, type) or len(found[0]) == 32
        calls.alone("leaf_cache", cache.tile, dice.choice((index, -1, 1 << 63)))
        if dice.random() < 0.2:
            calls.alone("leaf_cache", cache.drop, dice.choice(([index >> 5], [], [-1], None, range(40))))
        assert cache.memory_bytes() < 1 << 21
    cache.clear()


def call_meter_calls(dice: Random, calls: Calls) -> None:
    meter = calls.alone("call_meter", kernels.call_meter.CallMeter, ["a", "b"], [1000, 10**6])
    for _ in range(8):
        name = dice.choice(("a", "b", "c", None, 7, "x" * 1000))
        calls.alone(
            "call_meter", meter.finish, name, dice.choice((0, -1, 1 << 62)), dice.choice((None, -32601, 1 << 40))
        )
        calls.alone("call_meter", meter.reject, name, dice.randrange(-40_000, 40_000))
        calls.alone("call_meter", meter.histogram, name)
        calls.alone("call_meter", meter.errors, name)
        calls.alone("call_meter", meter.add_alias, dice.choice("cdef"), dice.choice("ab"))


def cached_responses_calls(dice: Random, calls: Calls) -> None:
    results = make_results(Handlers(), bytes_max=dice.choice((0, 2000, 1 << 20)))
    for _ in range(12):
        name = dice.choice(("node_double", "node_redouble", "node_fill", "node_bare", "node_given", "node_none"))
        params = dice.choice(
            (None, b"[%d]" % dice.randrange(6000), spoiled(dice, b'["latest"]'), b"[" + text_of_field(dice))
        )
        calls.alone("cached_responses", ask, results, name, params, dice.choice((VIEW, None)))
        calls.alone("cached_responses", results.keep, name, params, dice.randbytes(dice.randrange(3000)))
    calls.alone("cached_responses", results.forget, dice.randrange(1000))


def simple_request_calls(dice: Random, calls: Calls) -> None:
    data = spoiled(dice, b"".join(random_pieces(dice)))
    start = dice.choice((0, 0, 0, 7, len(data), len(data) + 1, -1))
    reader = make_reader()
    calls.alone("simple_request", everything_read, reader, data, start, dice.choice((0, 10, 5000)))
    connection = Connection()
    for piece in random_pieces(dice):
        calls.alone("fast_connection", connection.receiver.receive, spoiled(dice, piece))
        connection.receiver.is_resting = True
    descriptors = [-1] * dice.choice((0, 1, 5, 256, 257))
    calls.alone("fast_connection", kernels.fast_connection.write_each, descriptors, data)


def calls_calls(dice: Random, calls: Calls) -> None:
    """Values of a parser, and those that a scanner hands over."""
    ids = (None, b"null", b"1", b'"%b"' % dice.randbytes(dice.choice((3, 300))))
    entries = [("node_no", [], dice.choice(ids)) for _ in range(dice.choice((0, 1, 1, 3, 40)))]
    asked = calls.alone("calls", kernels.calls.Calls, entries, is_batch=dice.random() < 0.7)
    reader = make_reader()
    body = b"[%b]" % b",".join(
        b'{"id":%d,"method":"node_no","params":[%d]}' % (dice.choice((1, 9**9)), number) for number in range(5)
    )
    reader.answer(post(spoiled(dice, body)), 0, 5000, "view")
    for each in (asked, reader.calls):
        if not isinstance(each, kernels.calls.Calls):
            continue
        outcomes = calls.alone("calls", kernels.calls.Outcomes, dice.choice((len(each), len(each), 2)))
        for _ in range(2 * len(each)):
            index = dice.choice((-1, len(each), *range(len(each))))
            calls.alone("calls", outcomes.begin_call, index)
            calls.alone(
                "calls", outcomes.set_result, index, dice.choice((None, b"", dice.randbytes(dice.choice((1, 9000)))))
            )
            calls.alone("calls", outcomes.set_error, index, ServerError("no"), b"{}")
            calls.alone("calls", each.name, index)
            calls.alone("calls", each.__getitem__, index)
            calls.alone("calls", outcomes.started_ns, index)
        calls.alone("calls", each.fill, outcomes, dice.choice(("view", None)), dice.choice((0, 1, 1 << 62)))
        calls.alone("calls", kernels.calls.render, each, outcomes)


def payer_calls(dice: Random, calls: Calls) -> None:
    data = spoiled(dice, b"".join(random_pieces(dice)).replace(b"Host: ", b"Who: alice\r\nHost: "))
    clients = Clients(dice.choice((0.0, 3.0, 100.0)))
    left_out = dice.choice((frozenset(), frozenset({"node_getVersion"})))
    calls.alone("payer", everything_read, paid_reader(clients, left_out), data)
    assert clients.clients[b"alice"].budget >= 0.0, data


def grumpkin_calls(dice: Random, calls: Calls) -> None:
    generator = b"".join(coordinate.to_bytes(32, "big") for coordinate in GENERATOR)
    points = [dice.choice((generator, spoiled(dice, generator), field(dice) + field(dice))) for _ in range(2)]
    scalar = dice.choice((dice.randbytes(32), bytes(32), field(dice), spoiled(dice, bytes(32))))
    if dice.randrange(20) or points != [generator] * 2:
        calls.alone("grumpkin", kernels.grumpkin.multiply_and_add, scalar, *points)
    else:
        calls.alike("grumpkin", kernels.grumpkin, grumpkin, "multiply_and_add", scalar, *points)


def loop_time_calls(dice: Random, calls: Calls) -> None:
    made = calls.alone("loop_time", kernels.loop_time.LoopTime, dice.randrange(-1, 9), dice.randrange(9))
    if not isinstance(made, type):
        calls.alone("loop_time", made.charge, kernels.loop_time.Share(), dice.choice((0, 5, 1 << 62)))


def avm_calls(dice: Random, calls: Calls) -> None:
    case = random_case(dice.randrange(1 << 32))
    if dice.random() < 0.5:
        case = replace(case, programs=tuple(spoiled(dice, program) for program in case.programs))
    calls.made["avm"] += 1
    run_case(kernels.avm, case)


def peer_frames_calls(dice: Random, calls: Calls) -> None:
    fuzz_peers.peer_frames_calls(dice, calls, spoiled)


def rlp_calls(dice: Random, calls: Calls) -> None:
    fuzz_peers.rlp_calls(dice, calls, spoiled)


SUBJECTS: Final = (
    encode_calls,
    json_shape_calls,
    usual_params_calls,
    packed_calls,
    field_runs_calls,
    poseidon2_calls,
    hash_threads_calls,
    leveldb_table_calls,
    stored_text_calls,
    checked_reads_calls,
    effect_logs_calls,
    tag_log_calls,
    append_tree_calls,
    indexed_tree_calls,
    older_nodes_calls,
    tree_nodes_calls,
    block_text_calls,
    witness_text_calls,
    state_answers_calls,
    leaf_cache_calls,
    call_meter_calls,
    cached_responses_calls,
    simple_request_calls,
    calls_calls,
    payer_calls,
    loop_time_calls,
    grumpkin_calls,
    peer_frames_calls,
    rlp_calls,
    avm_calls,
)

#: Share of the time, beside 1 of the others.
SHARES: Final = {
    avm_calls: 4,
    simple_request_calls: 3,
    tree_nodes_calls: 0.2,
    call_meter_calls: 0.05,
    loop_time_calls: 0.05,
}


def fuzz(count: int, seed: int, calls: Calls | None = None) -> Calls:
    """At least ``count`` calls.  Each subject has its share of the time: the quick ones make more calls."""
    calls = calls or Calls()
    spent = dict.fromkeys(SUBJECTS, 0.0)
    turn = 0
    while calls.made.total() < count:
        subject = min(spent, key=spent.__getitem__)
        turn += 1
        started = time.perf_counter()
        try:
            subject(Random(f"{seed} {turn}"), calls)
        except BaseException:
            print(f"{subject.__name__}, seed {seed}, turn {turn}", file=sys.stderr, flush=True)
            raise
        spent[subject] += (time.perf_counter() - started) / SHARES.get(subject, 1)
    return calls


def main(count: int, seed: int) -> None:
    started = time.monotonic()
    calls = Calls()
    while calls.made.total() < count:
        fuzz(min(count, calls.made.total() + 50_000), seed, calls)
        seed += 1
        print(f"{calls.made.total()} calls, {time.monotonic() - started:.0f} s, next seed {seed}", flush=True)
    for subject, made in sorted(calls.made.items()):
        print(f"    {subject:<16} {made:>9} calls, {calls.refused[subject]:>9} refused")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()))
