"""The two halves of a snapshot of leaves, in process: rows read from a state, and a tree made of them.

    python bench/leaves.py                     100,000 nullifiers
    python bench/leaves.py --count 1000000     as many as the figures of README.md

Nullifiers lie as those of wallets do: 2.58 of the 64 places of a transaction.  Only processor time counts, of all
threads, LevelDB's too.  A hash of Poseidon2 is timed beside it, to compare days with.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from fastnode.protocol.releases import FOUR
from fastnode.storage.database import SharedDatabase
from fastnode.world_state.forest import Forest
from fastnode.world_state.layout import LEAF_ROW_BYTES, BlockRecord
from fastnode.world_state.leaves import LeavesOfBlock, as_u48
from fastnode.world_state.rebuild import make_indexed_tree
from fastnode.world_state.trees import NULLIFIER, TREES
from fastnode.world_state.view import WorldStateView
from growth import hash_us

PLACES_PER_TX: Final = 64
NULLIFIERS_PER_TX: Final = 2.58
TXS_PER_BLOCK: Final = 8
#: Leaves that a tree has from the genesis on.
GENESIS_LEAVES: Final = 128
ROWS_PER_READ: Final = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="nullifiers [default: 100,000]")
    parser.add_argument("--folder", type=Path, help="where the database goes [default: a temporary folder]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fastnode-leaves-", dir=options.folder) as folder:
        print(json.dumps(measure(options.count, Path(folder)), indent=1))


def measure(count: int, folder: Path) -> dict[str, Any]:
    rows, sizes = wallets_rows(count)
    figures: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "load": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "nullifiers": count,
        "hash_us": hash_us(),
    }
    forest, blocks = Forest.within(0, FOUR.trees), len(sizes) - 1
    begin = time.process_time()
    database = SharedDatabase.open(folder / "state", create=True)
    root = make_indexed_tree(forest.nullifiers, database, sizes, _in_parts(rows), folder / "sorted")
    database.release()
    figures["restore_s"] = round(time.process_time() - begin, 2)
    database = SharedDatabase.open(folder / "state", create=False)
    tip = BlockRecord(
        number=blocks,
        roots=tuple(root if tree is NULLIFIER else bytes(32) for tree in TREES),
        sizes=tuple(int(sizes[-1]) if tree is NULLIFIER else 0 for tree in TREES),
        block_hash=bytes(32),
        checkpoint_number=0,
    )
    view = WorldStateView(database, forest, tip, blocks)
    begin, digest = time.process_time(), hashlib.sha256()
    for some in LeavesOfBlock(forest, view, blocks).rows(NULLIFIER):
        digest.update(some)
    figures["make_s"] = round(time.process_time() - begin, 2)
    view.close()
    database.release()
    assert digest.digest() == hashlib.sha256(rows).digest(), "the rows that were read are not those that were given"
    figures["disk_bytes"] = sum(file.stat().st_size for file in (folder / "state").iterdir())
    figures["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return figures


def wallets_rows(count: int) -> tuple[bytes, np.ndarray[Any, np.dtype[np.uint64]]]:
    """Packed rows from the greatest key down, and the size of the tree after each block."""
    chance = np.random.default_rng(1)
    first = np.zeros((GENESIS_LEAVES, LEAF_ROW_BYTES[NULLIFIER.id]), np.uint8)
    first[:, 31] = first[:, -1] = np.arange(GENESIS_LEAVES)
    keys = chance.integers(0, 256, (count, 32), dtype=np.uint8)
    keys[:, 0] &= 0x0F  # below the field's modulus
    txs = max(1, int(count / NULLIFIERS_PER_TX))
    tx = np.sort(chance.integers(0, txs, count)).astype(np.uint64)
    within = (np.arange(count) - np.searchsorted(tx, tx)).astype(np.uint64)
    indexes = np.uint64(GENESIS_LEAVES) + tx * np.uint64(PLACES_PER_TX) + within
    rows = np.concatenate([np.concatenate([keys, as_u48(indexes)], axis=1), first])
    rows = rows[np.lexsort(rows[:, 31::-1].T)[::-1]]
    size = GENESIS_LEAVES + PLACES_PER_TX * txs
    ends = GENESIS_LEAVES + PLACES_PER_TX * TXS_PER_BLOCK * np.arange(txs // TXS_PER_BLOCK + 2, dtype=np.uint64)
    return rows.tobytes(), np.minimum(ends, size).astype(np.uint64)


def _in_parts(rows: bytes) -> Iterator[bytes]:
    width = LEAF_ROW_BYTES[NULLIFIER.id] * ROWS_PER_READ
    return (rows[begin : begin + width] for begin in range(0, len(rows), width))


if __name__ == "__main__":
    main()
