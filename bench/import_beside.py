"""What a chain costs two versions, from its file to its tip: has a change of the databases paid?

    python bench/import_beside.py --before FOLDER [--txs 24000] [--rounds 2] [--json FILE]

``FOLDER`` is a tree of the other version as for ``beside.py``.  Both import one chain, of transactions like those of a
recorded wallet in blocks of eight, with all history; this version once more in runs, without.  Then they are started
again, read, and follow the last 1,000 blocks of a longer chain, checkpoint by checkpoint.  They take turns; of several
rounds each figure is the least.  Processor time is that of all threads.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from fastnode.archiver.source import CheckpointRecord
from fastnode.chain_data import ChainData, ChainOptions
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

# Nothing else of fastnode, and nothing beside this file: the other version runs it too.

HERE: Final = Path(__file__).parent.parent
TXS_PER_BLOCK: Final = 8
BLOCKS_PER_CHECKPOINT: Final = 3
FOLLOWED_BLOCKS: Final = 999
READS: Final = 1000
READ_ROUNDS: Final = 7
BACK: Final = (0, 100, 900)

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="FOLDER")
    parser.add_argument("--txs", type=int, default=24_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where chains and databases go [default: a temporary folder]")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        folder, data, history_from = options.one
        print(json.dumps(measure(Path(folder), Path(data), history_from)))
        return
    if options.before is None:
        parser.error("--before is needed")
    with tempfile.TemporaryDirectory(prefix="fastnode-beside-", dir=options.folder) as temporary:
        folder = Path(temporary)
        make_chains(folder, options.txs)
        versions = {
            "before": (options.before.resolve(), "genesis"),
            "now": (HERE, "genesis"),
            "now, in runs": (HERE, "sync"),
        }
        rounds: dict[str, list[Figures]] = {name: [] for name in versions}
        for number in range(options.rounds):
            for name in versions if number % 2 == 0 else reversed(versions):
                rounds[name].append(ask(folder, *versions[name]))
    least = {name: {key: min(each[key] for each in found) for key in found[0]} for name, found in rounds.items()}
    print(table(least))
    if options.json is not None:
        options.json.write_text(json.dumps(rounds, indent=1))


def make_chains(folder: Path, txs: int) -> None:
    """One chain twice: without its last blocks, and with them."""
    from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain

    blocks = txs // TXS_PER_BLOCK // BLOCKS_PER_CHECKPOINT * BLOCKS_PER_CHECKPOINT
    for name, count in (("imported", blocks), ("followed", blocks + FOLLOWED_BLOCKS)):
        shape = ChainShape(
            blocks=count,
            txs=TXS_PER_BLOCK,
            blocks_per_checkpoint=BLOCKS_PER_CHECKPOINT,
            wallets=True,
            commitments=False,
        )
        write_synthetic_chain(folder / name, shape)


def ask(folder: Path, tree: Path, history_from: str) -> Figures:
    """The figures of one version; importing and what follows are processes of their own."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    data = folder / "data"
    found: Figures = {}
    try:
        for _ in range(2):
            command = [sys.executable, __file__, "--one", str(folder), str(data), history_from]
            found |= json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    return found


def table(least: dict[str, Figures]) -> str:
    rows = [["", *least], ["---"] * (1 + len(least))]
    for key in least["before"]:
        rows.append([key, *(f"{figures[key]:g}" if key in figures else "" for figures in least.values())])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


# ---- of one version ------------------------------------------------------------------------------


def measure(folder: Path, data: Path, history_from: str) -> Figures:
    if not data.exists():
        return import_chain(folder / "imported", data, history_from)
    with ChainData.open(data) as opened:
        spent = time.process_time()
        opened.open_ingestor(verify=True).catch_up()
        found = {"start, ms": _milliseconds(time.process_time() - spent)}
        found |= read_witnesses(opened)
        return found | follow(folder / "followed", opened)


def import_chain(chain: Path, data: Path, history_from: str) -> Figures:
    data.mkdir()
    # An older version does not know the setting.
    options = {} if history_from == "genesis" else {"world_state_history_from": history_from}
    with ChainData.open(data, options=ChainOptions(**options)) as opened:  # type: ignore[arg-type]
        adopt_chain_file(opened.store, chain)
        ingestor = opened.open_ingestor(verify=True)
        spent, written = time.process_time(), bytes_written()
        txs = import_chain_file(ingestor, chain).blocks * TXS_PER_BLOCK
        found = {
            "import of a tx, us": round((time.process_time() - spent) * 1e6 / txs),
            "written for a tx, B": round((bytes_written() - written) / txs),
        }
    for name in ("archiver", "world_state"):
        size = sum(file.stat().st_size for file in (data / name).rglob("*") if file.is_file())
        found[f"{name} of a tx, B"] = round(size / txs)
    return found


def read_witnesses(opened: ChainData) -> Figures:
    """Low nullifier witnesses of keys that were asked before, as far back as this database has history."""
    opened.state.load_nodes()  # as a node does, once it answers
    rng, found = random.Random(1), {}
    view = opened.state.view
    for back in BACK:
        block = view.tip.number - back
        if block < view.oldest:
            continue
        keys = [b"\0" + rng.randbytes(31) for _ in range(READS)]
        spent = []
        for _ in range(READ_ROUNDS):
            begun = time.process_time()
            for key in keys:
                view.low_nullifier_witness(key, block)
            spent.append(time.process_time() - begun)
        found[f"a witness {back} blocks back, us"] = round(min(spent) * 1e6 / READS, 1)
    return found


def follow(chain: Path, opened: ChainData) -> Figures:
    """Apply what is new in ``chain`` as it would come at the tip; memory is that of databases and trees."""
    ingestor = opened.open_ingestor(verify=True)
    tip = ingestor.view.tip_number
    with ChainFileSource(chain) as source:
        records = [
            record
            for record in source.records()
            if isinstance(record, CheckpointRecord) and record.published.checkpoint.number * BLOCKS_PER_CHECKPOINT > tip
        ]
    gc.collect()
    before, written = memory_mb(), bytes_written()
    spent, waited = [], []
    for record in records:
        begun, begun_at = time.process_time(), time.perf_counter()
        ingestor.apply(record)
        waited.append(time.perf_counter() - begun_at)
        for database in (opened.store.database, opened.state.database):
            # The upkeep of a node does so; an older version has smaller buffers and need not.
            if hasattr(database, "shorten_log"):
                database.shorten_log()
        spent.append(time.process_time() - begun)
    gc.collect()
    blocks = len(records) * BLOCKS_PER_CHECKPOINT
    return {
        "a block of eight txs at the tip, ms of processor": _milliseconds(sum(spent) / blocks),
        "a checkpoint of three to visible, ms, median": _milliseconds(statistics.median(waited)),
        "the same, 90 of 100": _milliseconds(statistics.quantiles(waited, n=10)[-1]),
        "written for a tx at the tip, B": round((bytes_written() - written) / blocks / TXS_PER_BLOCK),
        "memory that 999 blocks at the tip took, MB": round(memory_mb() - before, 1),
    }


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 2)


def memory_mb() -> float:
    """Resident memory without mapped files."""
    return _number_in(Path("/proc/self/status"), "RssAnon") / 1024


def bytes_written() -> int:
    """Bytes that this process has handed to the system for files."""
    return _number_in(Path("/proc/self/io"), "wchar")


def _number_in(file: Path, name: str) -> int:
    return int(next(line for line in file.read_text().splitlines() if line.startswith(name)).split()[1])


if __name__ == "__main__":
    main()
