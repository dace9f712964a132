"""The command behind ``scripts/compare-nodes``: do two nodes give the same answers?

What can be asked about is collected from the first node's newest blocks: hashes, roots, slots, tags, addresses.
Questions of every shape that clients were seen to ask are filled with it and put to both.  A chain that moves answers
differently from one moment to the next, so a question whose answers differ is asked again before it counts.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias

import click

from fastnode.cli.output import say
from fastnode.development.accepted_differences import ADDED_KEYS, added_keys, documented_row
from fastnode.errors import UpstreamRejection
from fastnode.outgoing.client import ClientLimits, RpcClient
from fastnode.outgoing.network import Network
from fastnode.protocol.block import L2Block
from fastnode.protocol.fields import field_from_int, hex_text
from fastnode.records import dataclass

__all__ = ["Comparison", "Difference", "Materials", "collect", "compare", "compare_nodes", "questions"]

Question: TypeAlias = tuple[str, list[Any]]
#: Answers in the order of the questions; an error is a :class:`Failure`.
Ask: TypeAlias = Callable[[Sequence[Question]], list[Any]]

BATCH: Final = 25
BLOCKS_PER_QUESTION: Final = 20
#: A difference counts if it is still there after so many more tries.
TRIES: Final = 4
PAUSE_S: Final = 1.0
ADDRESSES_OF_PROTOCOL: Final = 6
SHOWN: Final = 300
#: Both nodes may be busy.
ANSWER_TIME_S: Final = 300.0
#: Private members of records that some answers of the reference node carry.
IGNORED_KEYS: Final = frozenset({"_cachedHash"})


@dataclass(frozen=True)
class Failure:
    """An error of any code and text: nodes choose their own."""

    message: str = field(compare=False)


@dataclass
class Materials:
    """Values that questions are made of, as hex text, numbers and JSON."""

    tip: int = 0
    checkpoint: int = 0
    epoch: int = 0
    block_hashes: list[str] = field(default_factory=list)
    archive_roots: list[str] = field(default_factory=list)
    tx_hashes: list[str] = field(default_factory=list)
    note_hashes: list[str] = field(default_factory=list)
    nullifiers: list[str] = field(default_factory=list)
    public_slots: list[str] = field(default_factory=list)
    private_tags: list[str] = field(default_factory=list)
    public_logs: list[tuple[str, str]] = field(default_factory=list)  # contract, tag
    addresses: list[str] = field(default_factory=list)
    class_ids: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    #: Ids of logs, by the method that gives them.
    log_ids: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    #: Hash of block 1, if it is among the blocks.
    first_hash: str | None = None


@dataclass(frozen=True)
class Difference:
    question: Question
    first: Any
    second: Any

    def __str__(self) -> str:
        method, parameters = self.question
        return "\n".join(
            (
                f"{method} {_short(parameters)}",
                f"    first:  {_short(self.first)}",
                f"    second: {_short(self.second)}",
            )
        )


@dataclass(frozen=True)
class Comparison:
    """``with_more_keys``: answers of the first node that are those of the second with keys added that may be;
    ``documented``: differences with the row of docs/compatibility.md that explains them."""

    with_more_keys: int
    documented: list[tuple[str, Difference]]
    differences: list[Difference]


# ---- what can be asked about ------------------------------------------------------------------


def collect(ask: Ask, blocks_max: int) -> Materials:
    """From the newest ``blocks_max`` blocks of a node."""
    tips = ask([("node_getL2Tips", [])])[0]
    found = Materials(tip=tips["proposed"]["number"], checkpoint=tips["checkpointed"]["checkpoint"]["number"])
    for first in range(max(1, found.tip - blocks_max + 1), found.tip + 1, BLOCKS_PER_QUESTION):
        for item in ask([("node_getBlocks", [first, BLOCKS_PER_QUESTION])])[0]:
            _collect_block(L2Block.from_json(item), found)
    found.addresses += [hex_text(field_from_int(number)) for number in range(1, ADDRESSES_OF_PROTOCOL + 1)]
    found.addresses += sorted({address for address, _ in found.public_logs})
    instances = [
        item for item in ask([("node_getContract", [address]) for address in found.addresses]) if _is_record(item)
    ]
    found.class_ids = sorted({item["currentContractClassId"] for item in instances})
    for method in ("node_getPublicLogs", "node_getContractClassLogs"):
        answer = ask([(method, [{"fromBlock": max(1, found.tip - blocks_max + 1)}])])[0]
        found.log_ids[method] = [log["id"] for log in answer["logs"]] if _is_record(answer) else []
    for number in range(1, found.checkpoint + 1):
        answer = ask([("fastnode_getL1ToL2Messages", [number])])[0]
        if isinstance(answer, Failure):
            break
        found.messages += answer or []
    found.epoch = _epoch(ask, found)
    return found


def _epoch(ask: Ask, found: Materials) -> int:
    """The newest epoch with a checkpoint, found by asking: nodes do not say how long epochs are."""
    slots = [item["checkpoint"]["header"]["slotNumber"] for item in ask([("node_getCheckpoints", [1, 1])])[0]]
    newest = ask([("node_getCheckpoints", [max(1, found.checkpoint), 1])])[0]
    slots += [item["checkpoint"]["header"]["slotNumber"] for item in newest]
    return max((int(slot) for slot in slots), default=0)


def _collect_block(block: L2Block, found: Materials) -> None:
    found.block_hashes.append(hex_text(block.hash()))
    if block.number == 1:
        found.first_hash = hex_text(block.hash())
    found.archive_roots.append(hex_text(block.archive.root))
    for effect in block.body.tx_effects:
        found.tx_hashes.append(hex_text(effect.tx_hash))
        found.note_hashes += map(hex_text, effect.note_hashes)
        found.nullifiers += map(hex_text, effect.nullifiers)
        found.public_slots += [hex_text(write.leaf_slot) for write in effect.public_data_writes]
        found.private_tags += [hex_text(log.fields[0]) for log in effect.private_logs]
        found.public_logs += [
            (hex_text(log.contract_address), hex_text(log.fields[0])) for log in effect.public_logs if log.fields
        ]


def _is_record(answer: Any) -> bool:
    return isinstance(answer, dict)


# ---- questions --------------------------------------------------------------------------------


class _Draw:
    """Draws parameters; something that does not exist now and then, as clients do."""

    UNKNOWN: Final = 0.12

    def __init__(self, materials: Materials, choice: random.Random) -> None:
        self.of = materials
        self._choice = choice

    def one(self, items: Sequence[Any]) -> Any:
        if not items or self._choice.random() < self.UNKNOWN:
            return hex_text(field_from_int(self._choice.getrandbits(250)))
        return self._choice.choice(items)

    def number(self, top: int) -> int:
        return self._choice.randint(1, max(1, top))

    def some(self, items: Sequence[Any]) -> list[Any]:
        return [self.one(items) for _ in range(self._choice.randint(1, 6))]

    def block(self) -> Any:
        """A way to name a block: the first by its number, by which the documented differences know it."""
        drawn = self._choice.choice([self.number(self.of.tip), self.one(self.of.block_hashes), "latest"])
        return 1 if drawn == self.of.first_hash else drawn

    def leaf(self) -> tuple[int, list[Any]]:
        """A tree and leaves to look for; tree 2 fails on the reference node."""
        trees = {0: self.of.nullifiers, 1: self.of.note_hashes, 3: self.of.messages, 4: self.of.block_hashes}
        tree = self._choice.choice(list(trees))
        return tree, self.some(trees[tree])

    def public_log(self) -> tuple[str, str]:
        if not self.of.public_logs:
            return self.one([]), self.one([])
        pair: tuple[str, str] = self._choice.choice(self.of.public_logs)
        return pair

    def log_filter(self, method: str) -> dict[str, Any]:
        first = self.number(self.of.tip)
        filters: list[dict[str, Any]] = [
            {},
            {"txHash": self.one(self.of.tx_hashes)},
            {"fromBlock": first, "toBlock": first + self.number(5)},
            {"fromBlock": first, "contractAddress": self.one(self.of.addresses)},
            {"contractAddress": self.one(self.of.addresses)},
        ]
        ids = self.of.log_ids.get(method)
        if ids:
            filters.append({"afterLog": self._choice.choice(ids)})
        return self._choice.choice(filters)


#: (weight, method, parameters): the shapes of questions, about as often as clients ask them.
_SHAPES: Final[Sequence[tuple[int, str, Callable[[_Draw], list[Any]]]]] = (
    (3, "node_getL2Tips", lambda d: []),
    (1, "node_getBlockNumber", lambda d: []),
    (1, "node_getProvenBlockNumber", lambda d: []),
    (1, "node_getCheckpointedBlockNumber", lambda d: []),
    (1, "node_getCheckpointNumber", lambda d: []),
    (1, "node_getNodeInfo", lambda d: []),
    (1, "node_getL1ContractAddresses", lambda d: []),
    (1, "node_getProtocolContractAddresses", lambda d: []),
    (1, "node_getChainId", lambda d: []),
    (1, "node_getVersion", lambda d: []),
    (2, "node_getCurrentMinFees", lambda d: []),
    (6, "node_getBlock", lambda d: [d.block()]),
    (6, "node_getBlockHeader", lambda d: [d.block()]),
    (3, "node_getBlockByHash", lambda d: [d.one(d.of.block_hashes)]),
    (3, "node_getBlockByArchive", lambda d: [d.one(d.of.archive_roots)]),
    (3, "node_getBlockHeaderByArchive", lambda d: [d.one(d.of.archive_roots)]),
    (2, "node_getBlocks", lambda d: [d.number(d.of.tip), d.number(5)]),
    (2, "node_getCheckpointedBlocks", lambda d: [d.number(d.of.tip), d.number(5)]),
    (2, "node_getCheckpoints", lambda d: [d.number(d.of.checkpoint), d.number(3)]),
    (2, "node_getCheckpointsDataForEpoch", lambda d: [d.number(d.of.epoch)]),
    (2, "node_getL2ToL1Messages", lambda d: [d.number(d.of.epoch)]),
    (8, "node_getTxReceipt", lambda d: [d.one(d.of.tx_hashes)]),
    (8, "node_getTxEffect", lambda d: [d.one(d.of.tx_hashes)]),
    (
        12,
        "node_getPublicStorageAt",
        lambda d: [d.block(), d.one(d.of.addresses), hex_text(field_from_int(d.number(8)))],
    ),
    (6, "node_getPublicDataWitness", lambda d: [d.block(), d.one(d.of.public_slots)]),
    (5, "node_getNullifierMembershipWitness", lambda d: [d.block(), d.one(d.of.nullifiers)]),
    (5, "node_getLowNullifierMembershipWitness", lambda d: [d.block(), d.one(d.of.nullifiers)]),
    (5, "node_getNoteHashMembershipWitness", lambda d: [d.block(), d.one(d.of.note_hashes)]),
    (5, "node_getBlockHashMembershipWitness", lambda d: [d.block(), d.one(d.of.block_hashes)]),
    (4, "node_getL1ToL2MessageMembershipWitness", lambda d: [d.block(), d.one(d.of.messages)]),
    (3, "node_getL1ToL2MessageCheckpoint", lambda d: [d.one(d.of.messages)]),
    (3, "node_isL1ToL2MessageSynced", lambda d: [d.one(d.of.messages)]),
    (6, "node_findLeavesIndexes", lambda d: [d.block(), *d.leaf()]),
    (8, "node_getPrivateLogsByTags", lambda d: [d.some(d.of.private_tags)]),
    (4, "node_getPublicLogsByTagsFromContract", lambda d: [pair[0], [pair[1]]] if (pair := d.public_log()) else []),
    (4, "node_getPublicLogs", lambda d: [d.log_filter("node_getPublicLogs")]),
    (2, "node_getContractClassLogs", lambda d: [d.log_filter("node_getContractClassLogs")]),
    (4, "node_getContract", lambda d: [d.one(d.of.addresses)]),
    (3, "node_getContractClass", lambda d: [d.one(d.of.class_ids)]),
)


def questions(materials: Materials, count: int, seed: int) -> Iterator[Question]:
    """``count`` questions; the same seed and materials give the same ones."""
    choice = random.Random(seed)
    draw = _Draw(materials, choice)
    weights = [weight for weight, _, _ in _SHAPES]
    for _, method, parameters in choice.choices(_SHAPES, weights, k=count):
        yield method, parameters(draw)


# ---- comparing --------------------------------------------------------------------------------


def compare(first: Ask, second: Ask, asked: Sequence[Question], *, pause_s: float = PAUSE_S) -> Comparison:
    """Differences between the two that remain when they are asked up to ``TRIES`` more times."""
    differences, with_more_keys = _compare_once(first, second, asked)
    for _ in range(TRIES):
        if not differences:
            break
        time.sleep(pause_s)
        differences, more = _compare_once(first, second, [item.question for item in differences])
        with_more_keys += more
    explained = [(item, documented_row(item.question, item.first, item.second)) for item in differences]
    return Comparison(
        with_more_keys,
        [(row, item) for item, row in explained if row is not None],
        [item for item, row in explained if row is None],
    )


def _compare_once(first: Ask, second: Ask, asked: Sequence[Question]) -> tuple[list[Difference], int]:
    """Differences, and the number of answers of the first node that only have more keys."""
    differences, with_more_keys = [], 0
    for start in range(0, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        for question, one, other in zip(batch, first(batch), second(batch), strict=True):
            if _is_same(question[0], one, other):
                with_more_keys += bool(_added(one, other))
            else:
                differences.append(Difference(question, one, other))
    return differences, with_more_keys


def _is_same(method: str, one: Any, other: Any) -> bool:
    """Alike, but for keys that the first answer has in addition and may have."""
    added = _added(one, other)
    return added is not None and added <= ADDED_KEYS.get(method, frozenset())


def _added(one: Any, other: Any) -> frozenset[str] | None:
    return added_keys(_plain(one), _plain(other))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key not in IGNORED_KEYS and item is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, Failure) else json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


# ---- the command ------------------------------------------------------------------------------


def asking(url: str) -> Ask:
    limits = ClientLimits(request_time_s=ANSWER_TIME_S)

    def ask(asked: Sequence[Question]) -> list[Any]:
        with Network() as network:
            answers = RpcClient(url, network, limits).ask(asked).answers
        return [Failure(answer.message) if isinstance(answer, UpstreamRejection) else answer for answer in answers]

    return ask


@click.command("compare-nodes", context_settings={"show_default": True, "max_content_width": 120})
@click.argument("first", metavar="URL")
@click.argument("second", metavar="URL")
@click.option("--queries", type=click.IntRange(1), default=1000, metavar="N", help="How many questions.")
@click.option("--blocks", type=click.IntRange(1), default=200, metavar="B", help="Newest blocks to ask about.")
@click.option("--seed", type=int, default=1, metavar="S", help="The same seed and chain give the same questions.")
def compare_nodes(first: str, second: str, queries: int, blocks: int, seed: int) -> None:
    """Put the same questions to two nodes and show every answer that differs.

    Exits with 1 if any does that docs/compatibility.md does not explain.  The first node must be a fastnode: its
    records may have more keys, and only it tells about messages from L1.
    """
    ask_first, ask_second = asking(first), asking(second)
    materials = collect(ask_first, blocks)
    asked = list(questions(materials, queries, seed))
    found = compare(ask_first, ask_second, asked)
    for difference in found.differences:
        say(difference)
    same = len(asked) - found.with_more_keys - len(found.documented) - len(found.differences)
    say(
        f"{len(asked)} questions of {len({method for method, _ in asked})} methods about {len(materials.block_hashes)} "
        f"blocks, {len(materials.tx_hashes)} transactions: {same} answers the same, {found.with_more_keys} the same "
        f"with keys added, {len(found.documented)} that differ as documented, {len(found.differences)} differences"
    )
    for row, count in Counter(row for row, _ in found.documented).most_common():
        say(f"  {count:5} documented: {row}")
    for method, count in Counter(item.question[0] for item in found.differences).most_common():
        say(f"  {count:5} {method}")
    sys.exit(1 if found.differences else 0)


if __name__ == "__main__":
    compare_nodes(prog_name="scripts/compare-nodes")
