"""Trouble with the disks of a world's nodes, and the operator who does what the nodes say about it.

    power     the power of a node fails at any time, at one of its next writes, or while it is down
    room      its disk is full for a while: the system says so beforehand, or only when something is written
    damage    a bit of a file is turned over while it is down; a read fails

A node with a damaged log continues with what is before the damage.  One with another damage says so, and refuses or
answers truthfully; then its operator stops it, removes what it says, or all, and starts it again.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.simulation.disk import Doom
from tests.simulation.world import NodeOfWorld, Violation

from fastnode.errors import DatabaseError, DataDirectoryError

if TYPE_CHECKING:
    from tests.simulation.story import Story

__all__ = ["DISK_KINDS", "DiskTroubles"]

DISK_KINDS: Final = ("power", "room", "damage")
_Action = Callable[[random.Random], None]
_UNREADABLE: Final = re.compile(r"the database \S+ (?:is damaged|cannot be read)|cannot read the database \S+:")
_DAMAGED: Final = re.compile(r"the database (\S+?)(?: is|, which is) damaged")
_SLOT_DAMAGED: Final = re.compile(r"(.*) is damaged: it does not say for which slot")


class DiskTroubles:
    def __init__(self, story: Story) -> None:
        self._story = story
        #: Nodes whose disks have been spoiled or unreadable since they last began with none of it.
        self._spoiled: set[str] = set()
        #: How often the operator has acted on what a node said.
        self.repairs = 0

    def troubles(self) -> dict[str, tuple[_Action, ...]]:
        if not self._nodes:
            return {}
        return {
            "power": (self.lose_power, self.die_at_a_write),
            "room": (self.fill_disk,),
            "damage": (self.spoil_disk, self.fail_reads),
        }

    def rest(self) -> None:
        """All disks are good ones from now on, but for what is spoiled already."""
        for node in self._story.world.nodes:
            node.disk.rest()

    @property
    def _nodes(self) -> list[NodeOfWorld]:
        """Those with workers, which read the files of their primary, are left alone."""
        return [node for node in self._story.world.nodes if not hasattr(node, "workers")]

    # ---- power ---------------------------------------------------------------------------------

    def lose_power(self, dice: random.Random) -> None:
        node = dice.choice(self._nodes)
        node.kill(is_power=True)
        self._story._later(dice.uniform(0, 60), self._story._start_again(node))

    def die_at_a_write(self, dice: random.Random) -> None:
        node = dice.choice(self._nodes)
        seconds = dice.uniform(0, 20)
        begin = self._story._start_again(node)
        node.disk.doom = Doom(
            writes=dice.choice([1, 1, 2, 3, 5, 10, 30]),
            is_before=dice.random() < 0.3,
            is_power=dice.random() < 0.7,
            on_death=lambda: self._story._later(seconds, begin),
        )

    # ---- room ----------------------------------------------------------------------------------

    def fill_disk(self, dice: random.Random) -> None:
        story, node = self._story, dice.choice(self._nodes)
        disk, life = node.disk, node.process
        disk.has_refused = False
        if dice.random() < 0.7:
            disk.is_full = True
            story.world.say("disk", f"{node.name} has no room any more")
        else:
            disk.refuses = True
            story.world.say("disk", f"{node.name} has used up its quota")

        def undo() -> None:
            if not (disk.is_full or disk.refuses):
                return  # Another trouble with its room has ended before.
            if disk.has_refused and node.node is not None and node.process is life:
                story.world.count("refused writes")
                health = story.checks._health(node)
                if not health.failing and not health.notes:
                    raise Violation(f"a write of {node.name} was refused, and it says that nothing is wrong")
            story.world.say("disk", f"{node.name} has room again")
            disk.is_full = disk.refuses = False

        story._later(dice.uniform(10, 150), undo)

    # ---- damage --------------------------------------------------------------------------------

    def spoil_disk(self, dice: random.Random) -> None:
        story, node = self._story, dice.choice(self._nodes)
        if not node.is_up:
            return
        if dice.random() < 0.5:
            node.stop()
        else:
            node.kill()
        node.disk.spoil()
        self._spoiled.add(node.name)
        story.checks.forget(node)  # a damaged log is cut: what it acknowledged last may be lost
        story._later(dice.uniform(0, 30), story._start_again(node))

    def fail_reads(self, dice: random.Random) -> None:
        node = dice.choice(self._nodes)
        if node.node is not None:
            node.disk.reads_left = dice.choice([1, 3, 10, 100, 1000])
            self._spoiled.add(node.name)

    def repair(self, node: NodeOfWorld) -> None:
        """Before a node is started again: do what it said at its end.  A node whose disk kept its word says no such
        thing."""
        error = node.error
        if not isinstance(error, DataDirectoryError | DatabaseError):
            return
        of_slot = _SLOT_DAMAGED.match(str(error))
        if of_slot is not None:
            self._require_spoiled(node, str(error))
            # At once, though the slot may not be over: operators are tired.
            self._story.world.say("operator", f"removes {self._story.world.plain(of_slot[1])}")
            Path(of_slot[1]).unlink()
            node.disk.forget()
            node.error = None
        elif _DAMAGED.search(str(error)):
            self._remove(node, str(error))

    def look(self) -> None:
        """The operator of a node that says that its database is damaged or cannot be read."""
        for node in self._story.world.nodes:
            if node.node is None:
                continue
            said = "; ".join(self._faults(node))
            if _UNREADABLE.search(said) is None:
                continue
            self._story.world.say("operator", f"sees that {node.name} says: {self._story.world.plain(said)}")
            self.repairs += 1
            node.stop()
            if _DAMAGED.search(said):
                self._remove(node, said)
            node.start()

    def _faults(self, node: NodeOfWorld) -> Iterator[str]:
        health = self._story.checks._health(node)
        return (str(said) for said in (health.failing, health.notes))

    def _require_spoiled(self, node: NodeOfWorld, said: str) -> None:
        if node.name not in self._spoiled:
            raise Violation(f"nothing has spoiled the disk of {node.name}, and it says: {said}")

    def _remove(self, node: NodeOfWorld, said: str) -> None:
        story = self._story
        self._require_spoiled(node, said)
        found = _DAMAGED.search(said)
        assert found is not None
        path = Path(found[1]) if "remove the folder" in said else node.directory
        story.world.say("operator", f"removes {story.world.plain(str(path))}")
        shutil.rmtree(path)
        node.disk.forget()
        story.world.count("removed databases")
        if path == node.directory:
            self._spoiled.discard(node.name)
        node.error = None
        story.checks.forget(node)
