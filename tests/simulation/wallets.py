"""Wallets of a world: they send transactions to its nodes, the same one twice, conflicting ones, and ask after them.

What must hold: a transaction that a node has acknowledged is in a block, or in its pool, or the node says why not; no
node hands one on again that was taken from it; receipts and pending transactions are true whenever they are asked for.
"""

from __future__ import annotations

import base64
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tests.local_network.local_chain import for_chain
from tests.mempool.made import hash_of, made_txs
from tests.simulation.published import ChainOnL1, Published, SentTx, SharedPool
from tests.simulation.scheduler import EPOCH, the_world
from tests.simulation.world import PORT, NodeOfWorld, Violation, World
from tests.sources.l1.publishing import Sheet
from tests.sources.made_chain import Unit

from fastnode.errors import Refused, UpstreamError, UpstreamRejection
from fastnode.mempool.handover import PoolHandover
from fastnode.mempool.pool import TxPool
from fastnode.mempool.service import Mempool
from fastnode.mempool.store import PoolStore
from fastnode.outgoing.client import ClientLimits, RpcClient
from fastnode.outgoing.network import Network
from fastnode.protocol.tx_data import TxData
from fastnode.protocol.tx_layout import USUAL

__all__ = ["Wallets"]

Later = Callable[[float, Callable[[], None]], None]

_PRICE: Final = 10**9
#: Transactions that are asked after, and that others may conflict with: the newest.
_NEWEST: Final = 12
_REQUEST_S: Final = 10.0
#: A receipt of one that nobody takes says so after this time.
_UNTAKEN_S: Final = 40.0
#: The error of a receipt for a hash of which a node knows nothing.
_NO_REASON: Final = "Tx dropped by P2P node"
_PAGE: Final = 50
#: Seconds in which workers know what their primary does.
_REPEATED_S: Final = 2.0


class Wallets:
    """``open`` it once the world is, before its nodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = made_txs(1_000_000)
        self._count = 0
        self._sent: dict[str, SentTx] = {}
        self._base: dict[str, dict[str, Any]] = {}
        #: Hashes of blocks that have a transaction.
        self._blocks: dict[bytes, set[str]] = {}
        #: Acknowledged by a node: hash, and since when.
        self._acknowledged: dict[str, dict[bytes, float]] = {}
        #: Process that has handed on one that came into its pool, and the ticket of its note of that, by node, hash and
        #: arrival.
        self._handed_on: dict[tuple[str, bytes, int], tuple[object, int]] = {}
        #: Times that one began to wait in a node's pool, and that it became pending there, by node and hash.
        self._began_to_wait: Counter[tuple[str, bytes]] = Counter()
        self._became_pending: Counter[tuple[str, bytes]] = Counter()
        #: Refused by the upstreams of a node while L1 had no block with it, by node and hash.
        self._refused: set[tuple[str, bytes]] = set()
        self.published: dict[str, Published] = {}

    def open(self, placed: Callable[[], Sequence[tuple[Unit, Sheet]]]) -> None:
        world = self._world
        made = world.chain
        self._version = made._chain.rollup_version
        pool = SharedPool(made, world.chance("blocks of wallets"))
        chain = ChainOnL1(made, world.l1, placed)
        for name in ("l2-one", "l2-two"):
            one = Published(chain, pool, self._sent.__getitem__, self._now, world.chance(name))
            self.published[name] = one
            world.wire.models[name] = one.respond
        self._watch()

    def upstreams(self, followed: Sequence[str], plot: random.Random) -> tuple[str, ...]:
        """Those of a node of the world: published ones, or other nodes, or both."""
        names = plot.choice([(), ("l2-one",), ("l2-two",), *[("l2-one", "l2-two"), ("l2-two", "l2-one")] * 2])
        urls = [f"http://{name}:8080" for name in names]
        return tuple([*urls, *followed] if plot.random() < 0.5 else [*followed, *urls])

    def know(self, unit: Unit) -> None:
        for block in unit.blocks:
            for effect in block.body.tx_effects:
                self._blocks.setdefault(effect.tx_hash, set()).add("0x" + block.hash().hex())

    def _now(self) -> float:
        return EPOCH + self._world.now

    # ---- what is told of by the code itself ------------------------------------------------------

    def _watch(self) -> None:
        send, hand_on, close = Mempool.send, PoolHandover._give, PoolStore.close
        make_pending, load = TxPool._make_pending, TxPool._load

        def sending(mempool: Mempool, tx: Any, *arguments: Any, **named: Any) -> Any:
            outcome = send(mempool, tx, *arguments, **named)
            name = self._host()
            self._acknowledged.setdefault(name, {}).setdefault(tx.hash, self._world.now)
            return outcome

        def handing_on(handover: PoolHandover, tx_hash: bytes, tx_json: bytes) -> bool:
            entry = handover._pool.entry(tx_hash)
            try:
                is_taken = hand_on(handover, tx_hash, tx_json)
            except Refused:
                self._note_refused(tx_hash)
                raise
            if is_taken and entry is not None:
                self._note_handed_on(tx_hash, entry.arrival, handover._pool._store._staged_count)
            return is_taken

        def closing(store: PoolStore) -> None:
            close(store)
            self._forget_unwritten(store)

        def making_pending(pool: TxPool, entry: Any) -> None:
            key = self._host(), entry.hash
            self._began_to_wait[key] += not pool.is_waiting(entry.hash)
            self._became_pending[key] += 1
            make_pending(pool, entry)

        def loading(pool: TxPool) -> None:
            load(pool)
            for counted in (self._began_to_wait, self._became_pending):
                counted.update((self._host(), tx_hash) for tx_hash in pool._entries)

        TxPool._make_pending = making_pending  # type: ignore[method-assign]
        TxPool._load = loading  # type: ignore[method-assign]
        Mempool.send = sending  # type: ignore[method-assign,assignment]
        PoolHandover._give = handing_on  # type: ignore[method-assign]
        PoolStore.close = closing  # type: ignore[method-assign]

    def _host(self) -> str:
        """Node whose thread this is: a worker's transactions are its node's."""
        return self._world.wire.host_of().partition("-w")[0]

    @staticmethod
    def _life() -> Any:
        """The process that asks."""
        task = the_world().current()
        return None if task is None else task.group

    def _note_handed_on(self, tx_hash: bytes, arrival: int, ticket: int) -> None:
        life = self._life()
        key = (life.name, tx_hash, arrival)
        before, _ = self._handed_on.get(key, (None, 0))
        if before is not None and (before is life or not getattr(before, "was_killed", False)):
            self._world.seen.append(Violation(f"{life.name} hands on {self._name(tx_hash)} again, which was taken"))
        self._handed_on[key] = life, ticket

    def _note_refused(self, tx_hash: bytes) -> None:
        """It is true for ever that a node's upstreams refused what no block had, also once others have brought it into
        one that the node has not seen.  Where a block had it, the refusal may be because of that."""
        key = self._host(), tx_hash
        self._refused.discard(key)
        if not self._is_on_l1(self._sent["0x" + tx_hash.hex()]):
            self._refused.add(key)

    def _forget_unwritten(self, store: PoolStore) -> None:
        """A node that ends while its disk takes nothing cannot leave a note of what it has handed on since: the next
        life hands that on once more, as after a kill.  A note that was written, or for which there was room, counts."""
        life = self._life()
        if not any(node.process is life and node.disk.takes_nothing for node in self._world.nodes):
            return
        for key, (before, ticket) in list(self._handed_on.items()):
            if before is life and ticket > store._written_count:
                del self._handed_on[key]
                self._world.count("lost notes of the pool")

    def _name(self, tx_hash: bytes) -> str:
        return f"transaction {self._sent['0x' + tx_hash.hex()].name}"

    # ---- what they do ----------------------------------------------------------------------------

    def live(self, dice: random.Random) -> None:
        """One thing; called again and again, in threads of its own."""
        world = self._world
        node = dice.choice(world.nodes)
        deed = dice.random()
        if deed < 0.3 and self._sent:
            self._ask(node, dice)
            return
        tx = self._rival(dice) if deed < 0.5 and self._sent else self._new(node, dice)
        if tx is None:
            return
        self._send(node, tx)
        while dice.random() < 0.25:
            self._send(dice.choice(world.nodes), tx)

    def _client(self, node: NodeOfWorld, network: Network) -> RpcClient:
        return RpcClient(f"http://{node.name}:{PORT}", network, ClientLimits(request_time_s=_REQUEST_S))

    def _new(self, node: NodeOfWorld, dice: random.Random) -> SentTx | None:
        """On the newest block of a node, or the genesis."""
        anchor = self._world.chain.genesis["header"]
        if dice.random() < 0.7:
            with Network() as network:
                try:
                    header = self._client(node, network).ask([("node_getBlockHeader", ["latest"])]).results()[0]
                except UpstreamError:
                    return None
            if isinstance(header, dict) and self._is_true(header):
                anchor = header
        self._count += 1
        return self._made(str(self._count), next(self._numbers), anchor, dice.randrange(100), dice)

    def _is_true(self, header: dict[str, Any]) -> bool:
        """False for one that was damaged on its way."""
        return any(header == block.header.to_json() for block in reversed(self._world.chain.blocks))

    def _rival(self, dice: random.Random) -> SentTx:
        """One that spends what another spends, for another fee; or that one again."""
        other = dice.choice(list(self._sent.values())[-_NEWEST:])
        if dice.random() < 0.3:
            return other
        fee = max(0, dice.choice([other.fee - 1, other.fee + 1, other.fee * 2 + 1]))
        number = sum(each.name.split(".")[0] == other.name.split(".")[0] for each in self._sent.values())
        name = f"{other.name.split('.')[0]}.{number}"
        base = self._base[other.name.split(".")[0]]
        return self._made(name, base["tx"], base["anchor"], fee, dice)

    def _made(self, name: str, base: dict[str, Any], anchor: dict[str, Any], fee: int, dice: random.Random) -> SentTx:
        made = for_chain(base, anchor, self._version, max_fee=_PRICE, priority=fee)
        data = bytearray(base64.b64decode(made["data"]))
        expiration = int(self._now()) + dice.choice([100, 600, 7_200, 7_200])
        struct.pack_into(">Q", data, USUAL.expiration, expiration)
        tx = made | {"data": base64.b64encode(data).decode("ascii")}
        tx |= {"txHash": hash_of(tx)}
        read = TxData.from_buffer(bytes(data))
        sent = SentTx(
            name, bytes.fromhex(tx["txHash"][2:]), tx, read.nullifiers, fee, expiration, read.anchor_block_hash
        )
        self._base.setdefault(name, {"tx": base, "anchor": anchor})
        return self._sent.setdefault(tx["txHash"], sent)

    def _send(self, node: NodeOfWorld, tx: SentTx) -> None:
        world = self._world
        with Network() as network:
            try:
                self._client(node, network).ask([("node_sendTx", [tx.json])]).results()
            except UpstreamRejection as error:
                world.say("wallet", f"{node.name} refuses transaction {tx.name}: {world.plain(error.message)}")
                world.count("refused transactions")
            except UpstreamError as error:
                world.say("wallet", f"sends transaction {tx.name} to {node.name}, and hears nothing: {error}")
                world.count("unanswered transactions")
            else:
                world.say("wallet", f"{node.name} takes transaction {tx.name}")
                world.count("transactions")

    # ---- what they ask ---------------------------------------------------------------------------

    def _ask(self, node: NodeOfWorld, dice: random.Random) -> None:
        asked = dice.sample(list(self._sent.values())[-_NEWEST:], min(3, len(self._sent)))
        faults = self._world.wire.counts.get("damaged", 0)
        known = self._acknowledged.get(node.name, {})
        since = self._world.now - _REPEATED_S  # a worker that others have sent one to may hear of it a little later
        waits, became_pending = dict(self._began_to_wait), dict(self._became_pending)
        before = {
            tx.hash: (
                self._is_waiting(node, tx),
                known.get(tx.hash, since + 1) <= since,
                self._is_on_l1(tx),
                self._is_in_chain(node, tx),
            )
            for tx in asked
        }
        pending_before = self._pending(node)
        calls: list[tuple[str, list[Any]]] = [("node_getTxReceipt", ["0x" + tx.hash.hex()]) for tx in asked]
        calls.append(("node_getPendingTxs", [_PAGE]))
        life = node.process
        with Network() as network:
            try:
                *receipts, pending = self._client(node, network).ask(calls).results()
            except UpstreamError:
                return
        if life is not node.process or life is None or self._world.wire.counts.get("damaged", 0) != faults:
            return
        for tx, receipt in zip(asked, receipts, strict=True):
            has_come = self._began_to_wait[node.name, tx.hash] != waits.get((node.name, tx.hash), 0)
            self._judge(node, tx, receipt, *before[tx.hash], has_come=has_come)
        pending_before = {
            tx_hash
            for tx_hash in pending_before
            if self._became_pending[node.name, tx_hash] == became_pending.get((node.name, tx_hash), 0)
        }
        self._judge_pending(node, pending, pending_before)
        self._world.count("receipts")

    def _is_waiting(self, node: NodeOfWorld, tx: SentTx) -> bool:
        return node.node is not None and node.node.core.mempool.pool.is_waiting(tx.hash)

    def _is_in_chain(self, node: NodeOfWorld, tx: SentTx) -> bool:
        view = None if node.node is None else node.node.view
        return view is not None and view.chain.tx_location(tx.hash) is not None

    def _is_on_l1(self, tx: SentTx) -> bool:
        return self.published["l2-one"].chain.has(tx.hash)  # type: ignore[attr-defined,no-any-return]

    def _judge(
        self,
        node: NodeOfWorld,
        tx: SentTx,
        receipt: Any,
        was_waiting: bool,
        was_known: bool,
        was_on_l1: bool,
        was_in_chain: bool,
        *,
        has_come: bool,
    ) -> None:
        """``was_`` is so before the question, ``has_come``: it has begun to wait since, perhaps for a moment."""
        status, error = receipt["status"], receipt.get("error") or ""
        what = f"{node.name} says of transaction {tx.name}: {status} {error}"
        if status == "pending":
            if node.knows_own_alone and not was_waiting and not has_come and not self._is_waiting(node, tx):
                raise Violation(f"{what}; it is not in its pool")
        elif status == "dropped":
            if node.hosts == [node.name] and was_waiting and not has_come and self._is_waiting(node, tx):
                raise Violation(f"{what}; it is in its pool")
            if was_known and error == _NO_REASON:
                raise Violation(f"{what}; it has acknowledged it")
            if node.hosts == [node.name] and was_in_chain and self._is_in_chain(node, tx):
                raise Violation(f"{what}; it is in its chain")
            is_refusal = "refused upstream" in error and (node.name, tx.hash) not in self._refused
            if is_refusal and was_on_l1 and self._is_on_l1(tx):
                raise Violation(f"{what}; it is on L1")
        elif receipt["blockHash"] not in self._blocks.get(tx.hash, ()):
            raise Violation(f"{what}, in a block that does not have it")

    def _pending(self, node: NodeOfWorld) -> set[bytes]:
        return set() if node.node is None else set(node.node.core.mempool.pool.pending_hashes())

    def _judge_pending(self, node: NodeOfWorld, pending: list[dict[str, Any]], before: set[bytes]) -> None:
        """``before``: those that were pending before the question, and have not become so since."""
        after = self._pending(node)
        found = {tx["txHash"] for tx in pending}
        for tx_hash in sorted(before & after) if node.hosts == [node.name] else ():
            if "0x" + tx_hash.hex() not in found and len(pending) < _PAGE:
                raise Violation(f"{self._name(tx_hash)} is pending at {node.name}, which does not say so")
        for tx in pending:
            if self._sent[tx["txHash"]].json != tx:
                raise Violation(f"{node.name} has changed transaction {self._sent[tx['txHash']].name}")

    # ---- what must hold --------------------------------------------------------------------------

    def look(self) -> None:
        """No acknowledged transaction is lost: a pool has it, then a block, or the node says why neither does."""
        for node in self._world.nodes:
            view = None if node.node is None else node.node.view
            if view is None:
                continue
            pool = node.node.core.mempool.pool  # type: ignore[union-attr]
            final = view.chain.tips.finalized.block.number
            known = self._acknowledged.get(node.name, {})
            for tx_hash in list(known):
                if pool.is_waiting(tx_hash):
                    continue
                location = view.chain.tx_location(tx_hash)
                if location is None and not pool.departure_of(tx_hash) and not pool.is_waiting(tx_hash):
                    raise Violation(f"{node.name} has acknowledged {self._name(tx_hash)}, and knows nothing of it")
                if location is not None and location.block_number <= final:
                    del known[tx_hash]

    def what_is_missing(self) -> str:
        """Empty in a calm in which all has been handed on."""
        return "; ".join(f"{name} has not handed on {what}" for name, what in self._unforwarded())

    def _unforwarded(self) -> Iterator[tuple[str, str]]:
        for node in self._world.nodes:
            if node.node is not None and node.node.core.mempool.handover is not None:
                for tx_hash in node.node.core.mempool.pool.unforwarded_hashes():
                    yield node.name, self._name(tx_hash)

    # ---- trouble ---------------------------------------------------------------------------------

    def rest(self) -> None:
        for one in self.published.values():
            one.rest()

    def trouble(self, dice: random.Random, later: Later) -> None:
        name, one = dice.choice(list(self.published.items()))
        what, shown = dice.choice(
            [
                ("fails", "fails"),
                ("fails", "fails"),
                ("lies", "forgets what it takes"),
                ("stalls", "takes, and does not say so"),
                ("refuses", "takes no transaction"),
            ]
        )
        setattr(one, what, dice.choice([0.3, 1.0]))
        self._world.say(name, shown)
        later(dice.uniform(5, 120), lambda: setattr(one, what, 0.0))
