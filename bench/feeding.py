"""A chain that is fed into a new data directory until it has a wanted tip: what the benchmarks of following, of
derivation and of importing share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pytest_benchmark.fixture import BenchmarkFixture

from fastnode.app.stages.origins import Origins
from fastnode.chain_data import ChainData, ChainOptions
from fastnode.config.settings import Settings
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.sources.publication import Publication
from fastnode.sources.sync_control import StopRequested, SyncControl

__all__ = ["PATIENCE_S", "feed", "feeding", "import_file", "measure_feeding"]

PATIENCE_S = 3600.0


@contextmanager
def feeding(directory: Path, settings: Settings, on_tip: Callable[[int], None]) -> Iterator[None]:
    """A new data directory that follows what the settings name, in a thread; verified, like a node does it.

    ``on_tip`` is called with each new tip, in that thread.
    """
    with ExitStack() as stack:
        options = ChainOptions(world_state_history_from=settings.world_state_history_from)
        data = stack.enter_context(ChainData.open(directory, options=options))
        origins = Origins(settings, lambda: data.store.chain if data.store.has_chain else None)
        stack.callback(origins.close)
        data.store.adopt_chain(*origins.learn_chain(settings.genesis))
        control = SyncControl()
        publication = Publication(lambda commit: on_tip(commit.view.tip_number))
        follower = origins.follow(data.open_ingestor(verify=True, on_commit=publication), control, publication)
        thread = threading.Thread(target=_run, args=(follower,))
        thread.start()
        try:
            yield
        finally:
            control.stop()
            origins.interrupt()
            thread.join()


def _run(follower: Any) -> None:
    try:
        follower.run()
    except StopRequested:
        return


def feed(directory: Path, settings: Settings, tip: int) -> None:
    """Until the tip is there."""
    arrived = threading.Event()

    def note(number: int) -> None:
        if number == tip:
            arrived.set()

    with feeding(directory, settings, note):
        assert arrived.wait(PATIENCE_S)


def import_file(chain_file: Path, directory: Path) -> int:
    """From a chain file, verified; its tip."""
    with ChainData.open(directory) as data:
        adopt_chain_file(data.store, chain_file)
        return import_chain_file(data.open_ingestor(verify=True), chain_file).tip


def measure_feeding(
    benchmark: BenchmarkFixture, work: Callable[[Path], object], tmp_path: Path, *, rounds: int, blocks: int, txs: int
) -> None:
    """``work`` with a new directory each round; says blocks and transactions per second of the best one."""
    numbers = iter(range(1_000))

    def fresh() -> tuple[tuple[Path], dict[str, Any]]:
        return (tmp_path / f"round-{next(numbers)}",), {}

    benchmark.pedantic(work, setup=fresh, rounds=rounds, iterations=1)
    if benchmark.stats is not None:
        seconds = benchmark.stats.stats.min
        benchmark.extra_info |= {"blocks_per_s": round(blocks / seconds, 1), "txs_per_s": round(txs / seconds, 1)}
        print(f"\n{blocks / seconds:.0f} blocks/s, {txs / seconds:.0f} txs/s at best")
