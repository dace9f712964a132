"""What a chain costs as it grows: it is made, imported and read, at several sizes.

    python bench/growth.py                                      10,000 and 100,000 transactions
    python bench/growth.py --txs 10000 --keep growth.jsonl      one size; a line of JSON with all figures is added
    python bench/growth.py --txs 10000 --history-from sync      what is final is applied in runs
    python bench/growth.py --txs 1000000 --long                 half an hour to hours, and 20 GB of disk
    python bench/growth.py --txs 10000000 --long --piped        hours: one import, of a chain that is made meanwhile
    python bench/growth.py --draw FILE.svg --keep growth.jsonl  a picture of the lines that such an import has kept

Each size is measured in a process of its own.  Transactions are like those of a recorded wallet, in blocks of eight.
Only processor time counts, by thread: another load changes it by the half, never by its order.  A hash of Poseidon2 is
timed beside it, to compare days with.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from fastnode.chain_data import ChainData, ChainOptions
from fastnode.data_check import check_data
from fastnode.development.synthetic_chain import (
    FINALIZED_BEHIND,
    ChainShape,
    SyntheticChain,
    write_synthetic_chain,
)
from fastnode.kernels import poseidon2
from fastnode.protocol.releases import FOUR
from fastnode.snapshots.create import create_snapshot
from fastnode.snapshots.location import Location
from fastnode.snapshots.restore import choose_network, find_snapshots, restore_snapshot
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.world_state.state import WorldState
from fastnode.world_state.view import WorldStateView
from pictures import chart

T = TypeVar("T")

TXS_PER_BLOCK: Final = 8
#: Sizes beyond take hours and much disk: only with --long.
TXS_MAX: Final = 200_000
#: Sizes on the way of one import, and seconds between looks at how far it is.
SIZES: Final = 10
LOOK_S: Final = 0.2
READS: Final = 1000
READS_BACK: Final = (0, 1000)
HASHES: Final = 20_000
#: Threads that nobody names have the name of the process.
MAIN_NAME: Final = Path("/proc/self/comm").read_text().strip()
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--txs", default="10000,100000", help="sizes, separated by commas")
    parser.add_argument("--long", action="store_true", help=f"allow more than {TXS_MAX:,} transactions")
    parser.add_argument("--folder", type=Path, help="where chains and databases go [default: a temporary folder]")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="add the figures to FILE, a line for each size")
    parser.add_argument("--history-from", default="genesis", choices=["genesis", "sync"])
    parser.add_argument(
        "--piped",
        action="store_true",
        help="import a chain while another process makes it, which is on no disk, and give figures as it goes on",
    )
    parser.add_argument("--draw", type=Path, metavar="SVG", help="measure nothing; draw the lines of --keep")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make is not None:
        make_lines(options.make, Path("/dev/stdout"))
        return
    if options.one is not None:
        told = measure_as_it_goes if options.piped else measure
        for figures in told(options.one, options.folder, options.history_from):
            print(json.dumps(figures), flush=True)
        return
    if options.draw is not None:
        if options.keep is None:
            parser.error("--draw needs --keep")
        options.draw.write_text(picture([json.loads(line) for line in options.keep.read_text().splitlines()]))
        return
    for txs in map(int, options.txs.split(",")):
        if txs > TXS_MAX and not options.long:
            parser.error(f"{txs:,} transactions take long and much disk: say --long")
        with tempfile.TemporaryDirectory(prefix="fastnode-growth-", dir=options.folder) as folder:
            command = [sys.executable, __file__, "--one", str(txs), "--folder", folder]
            command += ["--history-from", options.history_from, *(["--piped"] if options.piped else [])]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as measuring:
                assert measuring.stdout is not None
                for line in measuring.stdout:  # those that are there stay when it is ended
                    print(json.dumps(json.loads(line), indent=1), flush=True)
                    if options.keep is not None:
                        with options.keep.open("ab") as file:
                            file.write(line)
            if measuring.returncode:
                sys.exit(f"{txs:,} transactions were not measured to the end")


def shape_of(txs: int) -> ChainShape:
    return ChainShape(blocks=-(-txs // TXS_PER_BLOCK), txs=TXS_PER_BLOCK, wallets=True, commitments=False)


def conditions(history_from: str) -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "load": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "history_from": history_from,
        "hash_us": hash_us(),
    }


def measure(txs: int, folder: Path, history_from: str) -> Iterator[dict[str, Any]]:
    """All figures of one size; times in microseconds of processor time, sizes in bytes."""
    chain, data = folder / "chain.jsonl", folder / "data"
    shape = shape_of(txs)
    count = shape.blocks * shape.txs
    figures = {"txs": count} | conditions(history_from)
    _, spent = timed(lambda: write_synthetic_chain(chain, shape))
    figures["make_us_per_tx"] = round(spent * 1e6 / count)
    figures |= import_figures(chain, data, count, ChainOptions(world_state_history_from=history_from))
    figures |= {"start_s": start_s(data), "disk_bytes_per_tx": disk(data, count)}
    report, spent = timed(lambda: _checked(data))
    assert report.clean, report.problems
    figures["check_us_per_tx"] = round(spent * 1e6 / count)
    yield figures | snapshot_figures(data, folder, count)


def import_figures(chain: Path, data: Path, count: int, options: ChainOptions) -> dict[str, Any]:
    with ChainData.open(data, options=options) as opened:
        adopt_chain_file(opened.store, chain)
        ingestor = opened.open_ingestor(verify=True)
        threads, written, wall = thread_seconds(), bytes_written(), time.perf_counter()
        _, spent = timed(lambda: import_chain_file(ingestor, chain))
        threads = {name: seconds - threads.get(name, 0.0) for name, seconds in thread_seconds().items()}
        return {
            "import_us_per_tx": round(spent * 1e6 / count),
            "import_wall_us_per_tx": round((time.perf_counter() - wall) * 1e6 / count),
            "import_us_per_tx_by_thread": {
                name: round(seconds * 1e6 / count) for name, seconds in threads.items() if seconds * 1e6 >= count
            },
            "written_bytes_per_tx": round((bytes_written() - written) / count),
            "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            "read_us": read_figures(opened.state),
        }


def make_lines(txs: int, target: Path) -> None:
    """A chain as it would be in its file."""
    with target.open("wb") as file:
        for kind, members in SyntheticChain(shape_of(txs), FOUR).lines():
            file.write(b'{"kind":"%b",%b}\n' % (kind, members))


def measure_as_it_goes(txs: int, folder: Path, history_from: str) -> Iterator[dict[str, Any]]:
    """Figures of one import at ten sizes on its way; those of a transaction are of all so far, and of the last ones."""
    shape, data, head = shape_of(txs), folder / "data", folder / "head.jsonl"
    with head.open("wb") as file:
        for kind, members in islice(SyntheticChain(shape, FOUR).lines(), 2):
            file.write(b'{"kind":"%b",%b}\n' % (kind, members))
    begun = conditions(history_from)
    options = ChainOptions(world_state_history_from=history_from)
    command = [sys.executable, __file__, "--make", str(txs)]
    with (
        ChainData.open(data, options=options) as opened,
        subprocess.Popen(command, stdout=subprocess.PIPE) as maker,
    ):
        adopt_chain_file(opened.store, head)
        ingestor = opened.open_ingestor(verify=True)
        assert maker.stdout is not None
        # The last line says what is final: it is not known before the chain is made.
        ingestor.final_checkpoint = shape.blocks // shape.blocks_per_checkpoint - FINALIZED_BEHIND
        pipe = Path(f"/dev/fd/{maker.stdout.fileno()}")
        marks = [shape.blocks * tenth // SIZES for tenth in range(1, SIZES + 1)]
        with ThreadPoolExecutor(1) as importing:
            spent, written, wall = time.process_time(), bytes_written(), time.perf_counter()
            before = (0, spent, written)
            done = importing.submit(import_chain_file, ingestor, pipe)
            for mark in marks:
                while ingestor.view.tip_number < mark and not done.done():
                    time.sleep(LOOK_S)
                if done.done():
                    done.result()  # raises what ended it
                count = ingestor.view.tip_number * shape.txs
                now = (count, time.process_time(), bytes_written())
                yield {
                    "txs": count,
                    **begun,
                    "import_us_per_tx": round((now[1] - spent) * 1e6 / count),
                    "import_us_per_tx_of_the_last": round((now[1] - before[1]) * 1e6 / (count - before[0])),
                    "import_wall_us_per_tx": round((time.perf_counter() - wall) * 1e6 / count),
                    "written_bytes_per_tx": round((now[2] - written) / count),
                    "written_bytes_per_tx_of_the_last": round((now[2] - before[2]) / (count - before[0])),
                    "memory_mb": memory_mb(),
                    "disk_bytes_per_tx": disk(data, count),
                }
                before = now
            done.result()
        assert maker.wait() == 0
    yield {"txs": txs, **begun, "start_s": start_s(data), "disk_bytes_per_tx": disk(data, shape.blocks * shape.txs)}


def picture(lines: list[dict[str, Any]]) -> str:
    """The curve of one import, as SVG."""
    names = {
        "processor time, us": "import_us_per_tx_of_the_last",
        "written, kB": "written_bytes_per_tx_of_the_last",
    }
    points = {
        name: [(each["txs"], each[key] / (1000 if key.startswith("written") else 1)) for each in lines if key in each]
        for name, key in names.items()
    }
    return chart(
        "One import in runs: what a transaction costs", "transactions so far", "for each of the newest", points
    )


def read_figures(state: WorldState) -> dict[str, float | None]:
    """A low leaf of the nullifier tree with its path: at the newest block, and far back."""
    rng = random.Random(1)
    found: dict[str, float | None] = {}
    view = state.view
    for back in READS_BACK:
        block = view.tip.number - back
        if block < view.oldest:
            found[f"{back} blocks back"] = None
            continue
        keys = [b"\0" + rng.randbytes(31) for _ in range(READS)]
        spent = min(timed(partial(_read, view, keys, block))[1] for _ in range(2))
        found[f"{back} blocks back"] = round(spent * 1e6 / READS, 1)
    return found


def _read(view: WorldStateView, keys: list[bytes], block: int) -> None:
    for key in keys:
        view.low_nullifier_witness(key, block)


def start_s(data: Path) -> float:
    def opened() -> None:
        with ChainData.open(data) as found:
            found.open_ingestor(verify=True).catch_up()

    return round(min(timed(opened)[1] for _ in range(3)), 3)


def snapshot_figures(data: Path, folder: Path, count: int) -> dict[str, Any]:
    location = Location.to_write((folder / "snapshots").as_uri())
    snapshot, made = timed(lambda: create_snapshot(data, location, nullcontext()))
    network = choose_network(location)
    target = folder / "restored"
    target.mkdir()
    assert find_snapshots(location, network)
    _, restored = timed(lambda: restore_snapshot(target, location, network, snapshot))
    sizes = [file.stat().st_size for file in (folder / "snapshots").rglob("*") if file.is_file()]
    return {
        "snapshot_us_per_tx": {"made": round(made * 1e6 / count), "restored": round(restored * 1e6 / count)},
        "snapshot_bytes_per_tx": round(sum(sizes) / count),
    }


def _checked(data: Path) -> Any:
    with ChainData.open(data, create=False) as opened:
        return check_data(opened)


# ---- of the process ------------------------------------------------------------------------------


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What ``work`` gives, and the processor seconds of all threads and of the processes that it starts."""
    begun = _spent()
    return work(), _spent() - begun


def _spent() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def hash_us() -> float:
    """One hash of a batch, as the machine is now."""
    preimages = b"".join(b"\0" + bytes(30) + bytes([number & 255]) for number in range(3 * HASHES))
    return round(timed(lambda: poseidon2.hash_leaves_3(preimages))[1] * 1e6 / HASHES, 2)


def memory_mb() -> int:
    """Resident memory without mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) >> 10


def thread_seconds() -> dict[str, float]:
    """Processor seconds of the threads by name; those of one name together, LevelDB's as "others"."""
    found: dict[str, float] = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            text = (task / "stat").read_text()
        except OSError:  # it has ended
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        if name == MAIN_NAME:
            name = "main" if int(task.name) == os.getpid() else "others"
        user, system = text[text.rindex(")") + 2 :].split()[11:13]
        found[name] = found.get(name, 0.0) + (int(user) + int(system)) / TICKS_PER_SECOND
    return found


def bytes_written() -> int:
    """Bytes that this process has handed to the system for files."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


def disk(data: Path, count: int) -> dict[str, int]:
    """Bytes for a transaction, by database."""
    return {
        folder.name: round(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / count)
        for folder in sorted(data.iterdir())
        if folder.is_dir()
    }


if __name__ == "__main__":
    main()
