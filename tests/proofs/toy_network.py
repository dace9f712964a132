"""A network of the test setup, and a node for it: there the recorded transactions are valid, proofs and all.

    python -m tests.proofs.toy_network start ...      fastnode with the verification keys of the test setup

The network's own blocks were not kept.  Its chain here has the genesis alone, in which the payer of the recorded
transactions has fee juice; the blocks that they are anchored at are entered as known.  Before block 1 nothing expires.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from unittest.mock import patch

from tests.conftest import SAMPLE_CHAIN
from tests.proofs.programs import VECTORS, toy_keys, vector
from tests.taking_node import taking

from fastnode.archiver import layout
from fastnode.archiver.store import ARCHIVER_DIRECTORY, ArchiverStore
from fastnode.cli import main
from fastnode.mempool.ledger import balance_slot
from fastnode.proofs.keys import VerificationKeys
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.genesis import PrefilledPublicData
from fastnode.protocol.releases import FOUR
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.genesis import build_genesis
from fastnode.storage.database import open_leveldb

#: Much more than the recorded transactions may cost.
_BALANCE = 10**23

MODULE = "tests.proofs.toy_network"
ROOT = str(Path(__file__).parents[2])


def write_chain_file(path: Path) -> Path:
    """The chain and its genesis, as the recorded transactions name them."""
    with lzma.open(SAMPLE_CHAIN) as lines:
        chain, genesis = json.loads(next(lines)), json.loads(next(lines))
    data = vector("private").data
    balance = PrefilledPublicData(balance_slot(data.fee_payer, FOUR.addresses.fee_juice), field_from_int(_BALANCE))
    record = build_genesis([balance], genesis["contractClasses"], genesis["contractInstances"], FOUR).to_json()
    chain["nodeInfo"] |= {"l1ChainId": data.chain_id, "rollupVersion": data.version, "realProofs": True}
    chain["l1Constants"]["genesisArchiveRoot"] = record["archiveRoot"]
    path.write_text("".join(json.dumps(line) + "\n" for line in (chain, {"kind": "genesis", **record})))
    return path


def enter_anchors(data_directory: Path) -> None:
    """Let the blocks that the recorded transactions were proven against be known.  No node may have it open."""
    database = open_leveldb(data_directory / ARCHIVER_DIRECTORY, create=False)
    for name in VECTORS:
        key = layout.BLOCK_BY_HASH + vector(name).data.anchor_block_hash
        database.put(key, layout.encode_number(0), sync=True)
    database.close()


def make_data_directory(folder: Path) -> Path:
    """Settings with which a node of this network starts."""
    data_directory = folder / "data"
    with (
        ChainFileSource(write_chain_file(folder / "chain.jsonl")) as source,
        ArchiverStore.open(data_directory) as store,
    ):
        store.adopt_chain(source.chain, source.genesis)
    enter_anchors(data_directory)
    return data_directory


def arguments(data_directory: Path, program: Path) -> list[str]:
    """Arguments of ``start``, which ``module`` runs with ``PYTHONPATH`` at the top of the project."""
    root = f"0x{toy_keys().tree_root.hex()}"
    return [f"--data-directory={data_directory}", f"--bb-binary-path={program}", f"--vk-tree-root={root}"]


if __name__ == "__main__":
    with patch.object(VerificationKeys, "of_release", lambda _: toy_keys()), taking():
        main()
