"""Disks of a world: trouble that is meant for a node comes to nobody else."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plyvel
from tests.simulation.disk import Disk
from tests.simulation.scheduler import Scheduler, the_world
from tests.simulation.test_simulation import on_tried_python


@on_tried_python
def test_a_read_that_fails_is_one_of_the_node_itself(tmp_path: Path) -> None:
    process, found = object(), list[str]()
    world = SimpleNamespace(say=lambda *_: None)
    node: Any = SimpleNamespace(process=process, world=world, name="node", directory=tmp_path)
    disk = Disk(node, random.Random(1))

    def read(count: int) -> None:
        for number in range(count):
            try:
                disk.on_read(tmp_path)
            except plyvel.IOError:
                found.append(f"{the_world().current().name} at {number}")  # type: ignore[union-attr]

    def live() -> None:
        read(2)
        the_world().spawn("inner", lambda: read(2))

    def story() -> None:
        disk.reads_left = 3
        read(5)
        the_world().spawn("node", live, process)
        the_world().spawn("killed", lambda: read(5), object())
        the_world().sleep(1)
        read(5)

    scheduler = Scheduler(1)
    scheduler.on_error = lambda task, error: found.append(f"{task.name}: {error!r}")
    scheduler.run(story)
    assert found == ["inner at 0"]
    assert disk.reads_left is None
