"""Reading while the chain moves: every answer belongs to one moment, and no view is freed too early."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop
from tests.conftest import PATIENCE_S

from fastnode.api.chain import METHODS
from fastnode.archiver.commit import ChainCommit
from fastnode.archiver.ingest import Ingestor
from fastnode.chain_data import ChainData
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import MethodTable
from fastnode.sources.chain_file import bundled_chain
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.view import View

TIP = 106


class MovingChain:
    """An ingestor and the view it published last."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.view: View | None = None
        data = stack.enter_context(ChainData.open(directory))
        stack.callback(self.forget)  # before the database closes
        self.source = Path(str(bundled_chain()))
        adopt_chain_file(data.store, self.source)
        self.ingestor: Ingestor = data.open_ingestor(verify=False, on_commit=self.publish)
        self.publish(ChainCommit(self.ingestor.view))

    def publish(self, commit: ChainCommit) -> None:
        self.view = View(commit.view)

    def forget(self) -> None:
        self.view = None

    def load(self) -> None:
        import_chain_file(self.ingestor, self.source)

    def engine(self) -> Engine:
        return Engine(MethodTable(METHODS), lambda: self.view)


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[MovingChain]:
    with ExitStack() as stack:
        yield MovingChain(tmp_path, stack)


BATCH = orjson.dumps(
    [
        {"id": 1, "method": "node_getL2Tips", "params": []},
        {"id": 2, "method": "node_getBlocks", "params": [1, 4]},
        {"id": 3, "method": "node_getBlockNumber", "params": []},
        {"id": 4, "method": "node_getBlock", "params": ["latest"]},
        {"id": 5, "method": "node_getCheckpoints", "params": [1, 3]},
        {"id": 6, "method": "node_getL2Tips", "params": []},
    ]
)


def assert_of_one_moment(answers: list[dict[str, Any]]) -> int:
    tips, blocks, number, latest, checkpoints, tips_again = (answer["result"] for answer in answers)
    assert tips == tips_again
    assert number == tips["proposed"]["number"] == latest["number"]
    assert number == 0 or latest["hash"] == tips["proposed"]["hash"]
    assert len(blocks) == min(number, 4)
    assert [block["number"] for block in blocks] == list(range(1, len(blocks) + 1))
    assert len(checkpoints) == min(tips["checkpointed"]["checkpoint"]["number"], 3)
    return int(number)


def test_batches_answered_during_an_import_belong_to_one_moment_each(moving: MovingChain) -> None:
    """Half of the batch runs in threads; the views it holds are replaced all the while."""
    seen: set[int] = set()

    async def ask(engine: Engine) -> None:
        while True:
            is_last = moving.view is not None and moving.view.chain.tip_number == TIP
            answer = engine.handle(BATCH)
            reply = answer if isinstance(answer, Reply) else await answer
            seen.add(assert_of_one_moment(orjson.loads(reply.text)))
            if is_last:
                return

    async def main() -> None:
        engine = moving.engine()
        loader = threading.Thread(target=moving.load)
        loader.start()
        await asyncio.gather(*(ask(engine) for _ in range(4)))
        loader.join()
        assert engine.internal_fault_count == 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    assert TIP in seen


def test_an_old_view_stays_readable_until_its_last_reader_has_gone(moving: MovingChain) -> None:
    held = moving.view
    assert held is not None
    owners = moving.ingestor.store._database.owners
    moving.load()
    gc.collect()
    assert moving.view is not held
    assert held.chain.tip_number == 0
    assert held.chain.header_json(1) is None
    assert held.chain.header_json(0) is not None
    del held
    gc.collect()
    assert moving.ingestor.store._database.owners == owners  # the replaced views have gone, the new one has come


def test_the_last_reader_of_a_view_may_be_in_another_thread(moving: MovingChain) -> None:
    moving.load()
    started, go_on = threading.Event(), threading.Event()

    def read(view: View) -> int:
        started.set()
        assert go_on.wait(PATIENCE_S)
        return sum(len(view.chain.body_json(number) or b"") for number in range(1, TIP + 1))

    with ThreadPoolExecutor(1) as executor:
        assert moving.view is not None
        total = executor.submit(read, moving.view)
        assert started.wait(PATIENCE_S)
        moving.ingestor.undo_above(50)
        gc.collect()
        go_on.set()
        assert total.result(PATIENCE_S) > 1_000_000
    assert moving.view is not None
    assert moving.view.chain.tip_number <= 50


def test_a_reader_may_outlive_the_ingestor(moving: MovingChain) -> None:
    """As a call in a thread does that a stop has cut off."""
    moving.load()
    held = moving.view
    assert held is not None
    moving.ingestor.close()
    assert held.chain.header_json(TIP) is not None
