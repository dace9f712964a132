"""Random keys of random databases that are flipped, removed or replaced: the whole check finds each, or it is harmless.

A few damages are tried always, hundreds with FASTNODE_LONG=1; FASTNODE_SEED=N repeats those of another run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from fastnode.archiver import layout as chain_layout
from fastnode.chain_data import ChainData
from fastnode.data_check import check_data
from fastnode.errors import FastnodeError
from fastnode.log_index import layout as index_layout
from fastnode.storage.database import open_leveldb
from fastnode.world_state import layout as state_layout

DAMAGES = 600 if os.environ.get("FASTNODE_LONG") == "1" else 12
SEED: int = int(os.environ.get("FASTNODE_SEED", "41"))

Entries = dict[bytes, bytes]
#: A change: the key and its value, all others of its kind; the new value, None to remove it.
Damage = Callable[[random.Random, bytes, list[bytes]], bytes | None]


def flip(chance: random.Random, value: bytes, _others: list[bytes]) -> bytes | None:
    changed = bytearray(value or b"\0")
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def remove(_chance: random.Random, _value: bytes, _others: list[bytes]) -> bytes | None:
    return None


def replace(chance: random.Random, _value: bytes, others: list[bytes]) -> bytes | None:
    """The value of another key of the kind."""
    return chance.choice(others)


def cut(chance: random.Random, value: bytes, _others: list[bytes]) -> bytes | None:
    return value[: chance.randrange(len(value))] if value else b"\0"


def entries_of(database: Path) -> dict[bytes, Entries]:
    """All entries by kind."""
    kinds: dict[bytes, Entries] = {}
    with open_leveldb(database, create=False) as opened, opened.iterator() as entries:
        for key, value in entries:
            kinds.setdefault(kind_of(database.name, key), {})[key] = value
    return kinds


def kind_of(database: str, key: bytes) -> bytes:
    return key[:1] if database == "archiver" or key[:1] == b"B" else key[:2]


def is_harmless(database: str, key: bytes, before: bytes, after: bytes | None) -> bool:
    """Damage that nothing else in the databases contradicts, and why that does no harm.

    - What the chain says of itself (addresses, versions, fees) is compared with L1, or the followed node, at each
      start; the genesis' public data with the state's genesis when that is made.
    - The predecessor of a leaf that is as old as the history is never followed.
    - Marks of what may be merged are no content.
    - Indexes whose head is not that of the chain are built anew by the next start; the check notes it.
    """
    if database == "archiver":
        claims = (chain_layout.KEY_CHAIN, chain_layout.KEY_GENESIS, chain_layout.KEY_DROPPED)
        return (after is not None and key in claims) or key in (index_layout.LOG_HEAD, index_layout.CONTRACT_HEAD)
    if key[:1] == state_layout.LEAF and after is not None and len(after) == len(before):
        hash_bytes = state_layout.HASH_BYTES
        is_old = int.from_bytes(before[-hash_bytes - 4 : -hash_bytes], "big") == 0
        return is_old and after[:-hash_bytes] == before[:-hash_bytes]
    return key == state_layout.DROPPED_KEY


def found_in(directory: Path) -> list[str]:
    try:
        with ChainData.open(directory, create=False) as data:
            report = check_data(data)
            return report.problems + [note for note in report.notes if "the next start" in note]
    except FastnodeError as error:
        return [str(error)]


def put(database: Path, key: bytes, value: bytes | None) -> None:
    with open_leveldb(database, create=False) as opened:
        opened.delete(key) if value is None else opened.put(key, value)


def test_whatever_key_is_damaged_the_check_finds_it(directory: Path) -> None:
    chance = random.Random(SEED)
    databases = {name: entries_of(directory / name) for name in ("archiver", "world_state")}
    missed = []
    for number in range(DAMAGES):
        name = chance.choice(sorted(databases))
        kind = chance.choice(sorted(databases[name]))
        entries = databases[name][kind]
        key = chance.choice(sorted(entries))
        damage: Damage = chance.choice([flip, remove, replace, cut])
        before = entries[key]
        after = damage(chance, before, sorted(entries.values()))
        if after == before:
            continue
        put(directory / name, key, after)
        if not found_in(directory) and not is_harmless(name, key, before, after):
            missed.append(
                f"damage {number}: {damage.__name__} of {name} {key!r}: {before[:80]!r} -> {after and after[:80]!r}"
            )
        put(directory / name, key, before)
    assert not missed, "\n".join(missed)
    assert found_in(directory) == []
