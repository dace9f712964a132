"""What must hold in a world, whatever happens in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from tests.simulation.world import PORT, NodeOfWorld, Violation, World
from tests.sources.made_chain import Unit

from fastnode.http.health import Health
from fastnode.outgoing.client import ClientLimits, RpcClient
from fastnode.outgoing.network import Network
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.tips import L2Tips

__all__ = ["Checks"]

#: Checkpoints, and blocks, whose answers are compared.
NEWEST = 4
#: Numbers of trees.
_NULLIFIERS, _NOTE_HASHES = 0, 1
#: The question for a node's tips.
_TIPS = "node_getL2Tips []"


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(one.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, f"{path}[{place}]")
    elif one != other:
        yield f"{path}: {str(one)[:140]} / {str(other)[:140]}"


def _first_differences(one: Any, other: Any) -> str:
    return "; ".join(islice(_differences(one, other), 4))


def _questions(block: Any, at: int) -> Iterator[tuple[str, list[Any]]]:
    """About what a block has in it, from all that a node keeps of it: bodies, indexes, logs and trees."""
    yield "node_getBlockByHash", ["0x" + block.hash().hex()]
    for effect in block.body.tx_effects[-1:]:
        yield "node_getTxEffect", ["0x" + effect.tx_hash.hex()]
        yield "node_getTxReceipt", ["0x" + effect.tx_hash.hex()]
        for tree, leaves in ((_NULLIFIERS, effect.nullifiers), (_NOTE_HASHES, effect.note_hashes)):
            yield "node_findLeavesIndexes", [at, tree, ["0x" + leaf.hex() for leaf in leaves[:2]]]
        for nullifier in effect.nullifiers[:1]:
            yield "node_getNullifierMembershipWitness", [at, "0x" + nullifier.hex()]
        for write in effect.public_data_writes[:1]:
            yield "node_getPublicDataWitness", [at, "0x" + write.leaf_slot.hex()]
        tags = ["0x" + log.fields[0].hex() for log in effect.private_logs[:2]]
        if tags:
            yield "node_getPrivateLogsByTags", [tags]


class Checks:
    def __init__(self, world: World) -> None:
        self._world = world
        #: Hashes of blocks and of headers of checkpoints that an honest proposer has made, by number.
        self._blocks: dict[int, set[bytes]] = {}
        self._headers: dict[int, set[bytes]] = {}
        #: Blocks of L1 with a checkpoint, and whether the network stands behind it.
        self._is_good: dict[str, bool] = {}
        #: What a node has said is final: its hash, and the node.
        self._final: dict[int, tuple[bytes, str]] = {}
        self._finalized: dict[str, int] = {}
        self._looked: dict[str, dict[int, bytes]] = {}
        self._told: dict[str, L2Tips] = {}
        self._placed: tuple[bytes, dict[int, str]] = b"", {}

    def know(self, unit: Unit) -> None:
        """A checkpoint that the network stands behind may come to L1."""
        for block in unit.blocks:
            self._blocks.setdefault(block.number, set()).add(block.hash())
        assert unit.published is not None
        header = PublishedCheckpoint.from_json(unit.published).checkpoint.header
        self._headers.setdefault(unit.number, set()).add(header.hash())

    def note(self, l1_block: bytes, is_good: bool) -> None:
        """L1 has a checkpoint in a block."""
        self._is_good["0x" + l1_block.hex()] = is_good

    def forget(self, node: NodeOfWorld) -> None:
        """The node begins with nothing."""
        for known in (self._finalized, self._looked, self._told):
            known.pop(node.name, None)  # type: ignore[attr-defined]

    # ---- at every moment -----------------------------------------------------------------------

    def look(self) -> None:
        for node in self._world.nodes:
            view = None if node.node is None else node.node.view
            if view is not None:
                self._look_at(node, view)

    def _look_at(self, node: NodeOfWorld, view: Any) -> None:
        chain, name = view.chain, node.name
        tips: L2Tips = chain.tips
        if self._told.get(name) == tips:
            return
        self._told[name] = tips
        self._world.say(
            name,
            f"is at block {tips.proposed.number}, checkpoint {tips.checkpointed.checkpoint.number}, proven "
            f"{tips.proven.checkpoint.number}, final {tips.finalized.checkpoint.number}",
        )
        looked = self._looked.setdefault(name, {})
        for number in range(tips.proposed.number, 0, -1):
            found = chain.block_info(number).hash
            if looked.get(number) == found:
                break
            if found not in self._blocks.get(number, ()):
                raise Violation(f"{name} has a block {number} that nobody honest has made: {found.hex()}")
            looked[number] = found
        self._look_at_checkpoints(name, chain, tips)
        self._look_at_final(name, chain, tips)
        state = view.state
        if state is not None and state.tip.number and state.block_hash(state.tip.number) != tips.proposed.hash:
            raise Violation(f"the state of {name} is of another block than its tip {tips.proposed.number}")

    def _look_at_checkpoints(self, name: str, chain: Any, tips: L2Tips) -> None:
        ever = self._world.l1.ever
        for number in range(max(1, tips.finalized.checkpoint.number), tips.checkpointed.checkpoint.number + 1):
            stored = chain.checkpoint(number)
            if stored.header_hash not in self._headers.get(number, ()):
                raise Violation(f"{name} has a checkpoint {number} that nobody honest has made")
            if not self._is_good.get(json.loads(stored.l1_json)["blockHash"], True):
                raise Violation(f"{name} has a checkpoint {number} that has too few attestations, or false ones")
            root = bytes.fromhex(json.loads(stored.archive_json)["root"][2:])
            if root not in ever.get(number, ()):
                raise Violation(f"{name} has a checkpoint {number} that was on no L1")

    def _look_at_final(self, name: str, chain: Any, tips: L2Tips) -> None:
        number = tips.finalized.checkpoint.number
        before = self._finalized.get(name, 0)
        if number < before:
            raise Violation(f"{name} said that checkpoint {before} is final, and says {number} now")
        self._finalized[name] = number
        l1 = self._world.l1
        proven = l1.blocks[l1.final].proven
        if number > proven:
            raise Violation(f"{name} says that checkpoint {number} is final; on L1 it is {proven}")
        for each in range(before, number + 1):
            if each:
                said, who = self._final.setdefault(each, (chain.checkpoint(each).header_hash, name))
                if chain.checkpoint(each).header_hash != said:
                    raise Violation(f"{who} and {name} say of two checkpoints {each} that they are final")

    # ---- health --------------------------------------------------------------------------------

    def _health(self, node: NodeOfWorld) -> Health:
        assert node.node is not None
        return node.node.core.condition.health()

    def require_trouble(self, node: NodeOfWorld) -> None:
        """A node without any source says so."""
        health = self._health(node)
        if not health.failing and "sync" not in health.notes:
            raise Violation(f"{node.name} reaches nobody, and says that nothing is wrong")

    # ---- in a calm -----------------------------------------------------------------------------

    def all_is_well(self) -> bool:
        return not any(self._wrong_with(node) for node in self._world.nodes)

    def what_is_missing(self, seconds: float) -> str:
        wrong = "; ".join(f"{node.name} {what}" for node in self._world.nodes if (what := self._wrong_with(node)))
        return f"after {seconds:g} s of calm: {wrong}"

    def _wrong_with(self, node: NodeOfWorld) -> str | None:
        """None where it is as it should be now."""
        view = None if node.node is None else node.node.view
        if view is None:
            return "is not there"
        head, tips = self._world.l1.head, view.chain.tips
        at = tips.checkpointed.checkpoint.number
        standing = self._world.l1.standing
        if at != standing:
            return f"is at checkpoint {at}, L1 at {standing}: {self._health(node).failing}"
        if at and json.loads(view.chain.checkpoint(at).archive_json)["root"] != "0x" + head.archives[at].hex():
            return f"has another checkpoint {at} than L1"
        for number in range(max(1, at - NEWEST), at + 1):
            named = json.loads(view.chain.checkpoint(number).l1_json)["blockHash"]
            if named != self._places().get(number):
                return f"names another block of L1 that has checkpoint {number}"
        if tips.proposed != tips.checkpointed.block:
            return f"is at block {tips.proposed.number}, beyond checkpoint {at}"
        if tips.proven.checkpoint.number != head.proven:
            return f"has proven {tips.proven.checkpoint.number}, L1 has {head.proven}"
        others = [other.node.view.chain.tips for other in self._world.nodes if other.node and other.node.view]
        if tips.finalized.checkpoint.number != max(each.finalized.checkpoint.number for each in others):
            return f"has final {tips.finalized.checkpoint.number}, others more"
        health = self._health(node)
        if health.failing or health.not_ready:
            return f"is where L1 is, and says {health.failing} {health.not_ready}"
        lag = self._lag(node)
        if lag:
            return f"is where L1 is, and says that it is {lag} blocks behind"
        return None

    @staticmethod
    def _lag(node: NodeOfWorld) -> int | None:
        """Blocks that a node says it does not have yet."""
        assert node.node is not None
        lag: int | None = (node.node.core.condition.sync_status() or {}).get("lagBlocks")
        return lag

    def _places(self) -> dict[int, str]:
        """The block of L1 that has each checkpoint."""
        l1 = self._world.l1
        if self._placed[0] != l1.head.hash:
            places = {item.number: "0x" + block.hash.hex() for block in l1.blocks for item in block.proposals}
            self._placed = l1.head.hash, places
        return self._placed[1]

    def compare_answers(self) -> str | None:
        """As users of each node get them; what a probe says that is not well, None for nothing."""
        answers = {}
        for node in self._world.nodes:
            for host in node.hosts:
                found = self._answers(node, host)
                if isinstance(found, str):
                    return found
                answers[host] = found
        first = next(iter(answers))
        for name, found in answers.items():
            where = _first_differences(answers[first][_TIPS], found[_TIPS])
            if where:  # time goes on while they answer, and another block of L1 may be final
                return f"{first} and {name} are not at one tip: {where}"
        for name, found in answers.items():
            for question, answer in found.items():
                where = _first_differences(answers[first][question], answer)
                if where:
                    raise Violation(f"{first} and {name} answer {question} otherwise: {where}")
        return None

    def _is_told_rightly(self, node: NodeOfWorld, trouble: str) -> bool:
        """True for a trouble that a node which is where L1 is may tell of."""
        return False

    def _answers(self, node: NodeOfWorld, host: str) -> dict[str, Any] | str:
        assert node.node is not None
        assert node.node.view is not None
        tips = node.node.view.chain.tips
        block, checkpoint = tips.proposed.number, tips.checkpointed.checkpoint.number
        calls: list[tuple[str, list[Any]]] = [("node_getL2Tips", []), ("node_getBlockNumber", [])]
        if block:
            first = max(1, block - NEWEST)
            calls += [("node_getBlock", [block]), ("node_getBlockHeader", [block]), ("node_getBlocks", [first, NEWEST])]
            calls += [("node_getCheckpoints", [max(1, checkpoint - NEWEST), NEWEST])]
            calls += [("node_getPublicLogs", [{"fromBlock": first, "toBlock": block + 1}])]
        for number in range(max(1, block - NEWEST), block + 1):
            calls += _questions(node.node.view.chain.load_block(number), block)
        with Network() as network:
            limits = ClientLimits(request_time_s=20)
            base = f"http://{host}:{PORT}"
            found: dict[str, Any] = {}
            for path in ("/readyz", "/status"):
                answer = network.get(base + path, limits)
                if answer.status != 200 and not self._is_told_rightly(node, answer.body.decode()):
                    return f"{host} is well, and {path} says {answer.body!r}"
            replies = RpcClient(base, network, limits).ask(calls).answers
        for (method, parameters), reply in zip(calls, replies, strict=True):
            found[f"{method} {parameters}"] = reply if not isinstance(reply, Exception) else repr(reply)
        return found
