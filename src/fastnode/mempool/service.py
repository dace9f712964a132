"""The mempool as a node uses it: validation, pool and handover over one chain.

mempool = Mempool.open(directory / "p2p", view, MempoolOptions(...), fees=..., sink=...)
methods = tx_methods.methods(mempool, fees)           # api/txs.py
chain_methods.methods(known_txs=TxKnowledge(is_pending=mempool.pool.is_waiting))
mempool.on_committed(committed)                       # after each commit, in the thread that ingests
mempool.close()                                       # before the chain's databases

What becomes of a transaction that a client sends::

    valid                                      into the pool, then to other nodes, if there are any
    not judged here, nothing else is wrong     to another node; into the pool once that node has taken it
    anything else                              refused with all reasons
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import orjson

from fastnode.config.allow_list import AllowedElement
from fastnode.errors import FastnodeError, Refused, SettingError
from fastnode.fees.sources import ChainFees, FeeSource
from fastnode.kernels import encode
from fastnode.mempool.allow_list import default_allow_list
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.final_txs import KEEP_NONE, KeepLimit
from fastnode.mempool.handover import Handover, PoolHandover, TxSink
from fastnode.mempool.ledger import ViewLedger
from fastnode.mempool.network import NetworkIdentity, NetworkValues
from fastnode.mempool.pool import Added, Origin, PoolOptions, TxPool
from fastnode.mempool.rules import insufficient_balance
from fastnode.mempool.validation import (
    BALANCE_TOO_LOW,
    NOT_PERMITTED,
    PROTOCOL_CAPS,
    GasCaps,
    TxValidationResult,
    TxValidator,
    ValidationRules,
)
from fastnode.proofs.judge import ProofJudge, open_judge
from fastnode.protocol.tx import Tx
from fastnode.records import dataclass
from fastnode.storage.database import SMALL_MEMORY, DatabaseMemory

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo
    from fastnode.config.settings import Settings
    from fastnode.view import Committed, View

__all__ = ["REJECTION_CODES", "Mempool", "MempoolOptions", "read_vk_tree_root"]

#: A refusal without a code of its own.
_NO_CODE: Final = "NOT_READY"
#: Codes of refusals that any node may have to give.
REJECTION_CODES: Final = (
    "INVALID_TX",
    "NULLIFIER_CONFLICT",
    "INSUFFICIENT_FEE_PAYER_BALANCE",
    "LOW_PRIORITY_FEE",
    _NO_CODE,
)

logger = logging.getLogger("fastnode.mempool")

#: Transactions that a local network keeps by itself, some 200 KB each.
KEPT_ON_LOCAL_NETWORK: Final = 1_000
#: A commit of more blocks than this is compared as a whole instead of block by block.
_BLOCKS_FOLLOWED_MAX: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class MempoolOptions:
    """Decisions of an operator; the fields are the settings of the same names."""

    p2p_max_pending_tx_count: int = 1000
    p2p_rpc_price_bump_percentage: int = 10
    p2p_tx_pool_delete_txs_after_reorg: bool = False
    transactions_disabled: bool = False
    #: Entries beside the protocol's own.
    setup_allow_list_extension: Sequence[AllowedElement] = ()
    proof_verifier_command: str | None = None
    proof_verifier_processes: int = 2
    proof_verifier_timeout_s: float = 30.0
    vk_tree_root: bytes | None = None
    keep_txs: KeepLimit = KEEP_NONE
    database_memory: DatabaseMemory | None = None

    @classmethod
    def of(cls, settings: Settings, setup_allow_list_extension: Sequence[AllowedElement] = ()) -> Self:
        """SettingError for a value that only its meaning shows to be wrong."""
        return cls(
            p2p_max_pending_tx_count=settings.p2p_max_pending_tx_count,
            p2p_rpc_price_bump_percentage=settings.p2p_rpc_price_bump_percentage,
            p2p_tx_pool_delete_txs_after_reorg=settings.p2p_tx_pool_delete_txs_after_reorg,
            transactions_disabled=settings.transactions_disabled,
            setup_allow_list_extension=setup_allow_list_extension,
            proof_verifier_command=settings.proof_verifier_command,
            proof_verifier_processes=settings.proof_verifier_processes,
            proof_verifier_timeout_s=settings.proof_verifier_timeout_s,
            vk_tree_root=read_vk_tree_root(settings.vk_tree_root),
            keep_txs=_keep_limit(settings),
            database_memory=SMALL_MEMORY if settings.local_network else None,
        )


def _caps_of(chain: ChainInfo) -> GasCaps:
    """The most gas that the protocol and the rollup let a transaction ask for."""
    mana_limit = chain.l1_constants.get("rollupManaLimit")
    return PROTOCOL_CAPS.lowered(l2_gas=None if mana_limit is None else int(mana_limit))


def _keep_limit(settings: Settings) -> KeepLimit:
    """A local network keeps some unless told otherwise: who develops on it looks at what ran."""
    if settings.local_network and settings.keep_txs is None:
        return KeepLimit(txs=KEPT_ON_LOCAL_NETWORK)
    return KEEP_NONE if settings.keep_txs is None else KeepLimit(settings.keep_txs.number, settings.keep_txs.size)


def read_vk_tree_root(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return encode.field_from_text(text)
    except ValueError as error:
        raise SettingError(f"--vk-tree-root {text!r} is no field element: {error}") from None


#: Told of a transaction, as it was decoded and as JSON.
_Told: TypeAlias = Callable[[Tx, bytes], None]


class Mempool:
    """Usable from any thread.

    ``fees`` gives what a block proposed now would charge at least.  ``sink``: other nodes that take transactions.
    ``closed`` says why no client may send a transaction now, because it could go nowhere; None if clients may.
    """

    def __init__(
        self,
        pool: TxPool,
        validator: TxValidator,
        view: View,
        options: MempoolOptions,
        *,
        judge: ProofJudge,
        fees: FeeSource | None = None,
        sink: TxSink | None = None,
        closed: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._on_network: list[Callable[[NetworkIdentity], None]] = []
        self.pool = pool
        self.validator = validator
        self.options = options
        #: Verifier of proofs.
        self.judge = judge
        #: None: no other node is told of transactions.
        self.handover: Handover | None = None if sink is None else PoolHandover(pool, sink)
        self._fees = fees or ChainFees()
        self._on_accepted: list[_Told] = []
        self._on_repeated: list[_Told] = []
        self._closed = closed
        self._rules_lock = threading.Lock()
        self._usual_allow_list = default_allow_list(view.chain.chain.release)
        self._other_allow_list: tuple[AllowedElement, ...] = ()
        #: Transactions of clients that were refused, by the code of the error.
        self.rejections: Counter[str] = Counter()
        #: True if the pool has been compared with a view that has a state.
        self._is_in_line = view.state is not None
        self._finalized = view.chain.tips.finalized.block.number
        if self._is_in_line:
            pool.on_finalized(self._finalized)

    @classmethod
    def open(
        cls,
        path: Path,
        view: View,
        options: MempoolOptions | None = None,
        *,
        judge: ProofJudge | None = None,
        fees: FeeSource | None = None,
        sink: TxSink | None = None,
        closed: Callable[[], str | None] = lambda: None,
        learned: NetworkValues | None = None,
        now: Callable[[], float] = time.time,
    ) -> Self:
        """Open or create the pool at ``path`` over the chain at its tip.

        If ``view`` has no state yet the pool takes nothing before the first view that has.

        ``judge`` of proofs: the mempool closes it; without one only a command of the options can judge.  ``now`` is
        in place of the clock on the wall; ``learned`` is what L1 or another node says of the network.  Raises
        DataDirectoryError or SettingError.
        """
        options = options or MempoolOptions()
        chain = view.chain.chain
        clock = SlotClock.of_chain(chain, now)
        caps = _caps_of(chain)
        rules = ValidationRules(
            network=NetworkIdentity.of_view(view.chain, vk_tree_root=options.vk_tree_root, learned=learned),
            release=chain.release,
            setup_allow_list=(*default_allow_list(chain.release), *options.setup_allow_list_extension),
            gas_caps=caps,
            transactions_permitted=not options.transactions_disabled,
        )
        judge = judge or open_judge(
            required=bool(chain.node_info.get("realProofs", True)),
            command=options.proof_verifier_command,
            processes_max=options.proof_verifier_processes,
            timeout_s=options.proof_verifier_timeout_s,
        )
        judge.use_network(rules.network.vk_tree_root)
        pool_options = PoolOptions(
            pending_max=options.p2p_max_pending_tx_count,
            price_bump_percentage=options.p2p_rpc_price_bump_percentage,
            delete_after_reorg=options.p2p_tx_pool_delete_txs_after_reorg,
            gas_caps=caps,
            database_memory=options.database_memory,
            keep=options.keep_txs,
        )
        ledger = None if view.state is None else ViewLedger(view)
        pool = TxPool.open(
            path, ledger, clock, genesis_hash=chain.genesis_block_hash, release=chain.release, options=pool_options
        )
        return cls(
            pool,
            TxValidator(rules, clock, judge),
            view,
            options,
            judge=judge,
            fees=fees,
            sink=sink,
            closed=closed,
        )

    def faults(self) -> dict[str, str | None]:
        """The fault that keeps the pool from its work, None for nothing."""
        return {"pool": self.pool.fault}

    def troubles(self) -> dict[str, str | None]:
        """The trouble of a pool that goes on working, None for nothing."""
        return {} if self.handover is None else {"forwarding": self.handover.trouble}

    def summary(self) -> str:
        """State of the pool, for status reports."""
        lost = self.pool.lost_count
        told = f"; {lost} lost since the start with blocks that were taken back" if lost else ""
        kept = self.pool.kept_count
        keeps = f"; {kept} final ones are kept, {self.pool.kept_bytes >> 20} MB" if kept else ""
        return f"{self.pool.pending_count} transactions wait{keeps}{told}"

    def close(self) -> None:
        self.judge.close()
        self.pool.close()

    @property
    def clock(self) -> SlotClock:
        return self.validator.clock

    @property
    def network(self) -> NetworkIdentity:
        """Conditions on a transaction about the network."""
        return self.validator.rules.network

    def learn_network(self, values: NetworkValues) -> None:
        """L1 or another node has named these values; what the operator named stays."""
        before = self.network
        after = replace(
            before,
            vk_tree_root=self.options.vk_tree_root or values.vk_tree_root or before.vk_tree_root,
            protocol_contracts_hash=values.protocol_contracts_hash or before.protocol_contracts_hash,
            node_version=values.node_version or before.node_version,
        )
        if after != before:
            logger.info("values of the network learned: %s", after)
            self._set_rules(network=after)
            self.judge.use_network(after.vk_tree_root)
            for on_network in tuple(self._on_network):
                on_network(after)

    def watch_network(self, on_network: Callable[[NetworkIdentity], None]) -> None:
        """From now on tell what the network is whenever more is learned of it, in the thread that learns it."""
        self._on_network.append(on_network)

    def watch_accepted(self, on_accepted: _Told) -> None:
        """Tell of each transaction that a client has sent, once it is durable; before any comes.

        ``on_accepted`` may block, until a block has it, and may raise Refused: the client gets its answer after that.
        """
        self._on_accepted.append(on_accepted)

    def watch_repeated(self, on_repeated: _Told) -> None:
        """As :meth:`watch_accepted`, of each that a client sends once more while no other node has taken it."""
        self._on_repeated.append(on_repeated)

    # ---- options ---------------------------------------------------------------------------

    def reconfigure(self, options: MempoolOptions) -> None:
        """Go on with other options: those for the allow list, permission and the pool's size take effect.

        Pending transactions beyond a smaller size leave the pool.
        """
        self.options = options
        self._set_rules(transactions_permitted=not options.transactions_disabled)
        self.pool.options = replace(self.pool.options, pending_max=options.p2p_max_pending_tx_count)
        if self._is_in_line:  # else the first view with a state brings everything in line
            self.pool.recheck()

    def join_allow_list(self, elements: Sequence[AllowedElement]) -> None:
        """Add the calls that another node allows in setup to those allowed here; replaces those joined before."""
        self._other_allow_list = tuple(elements)
        self._set_rules()

    @property
    def allow_list(self) -> tuple[AllowedElement, ...]:
        """The protocol's entries, the operator's, and those of another node that are in neither."""
        own = (*self._usual_allow_list, *self.options.setup_allow_list_extension)
        return (*own, *(element for element in self._other_allow_list if element not in own))

    def _set_rules(self, **changes: Any) -> None:
        with self._rules_lock:
            self.validator.rules = replace(self.validator.rules, setup_allow_list=self.allow_list, **changes)

    def require_proofs(self, required: bool) -> None:
        """True if transactions must have a valid proof; a verifier that the operator configured is always asked."""
        self.judge.require(required)

    @property
    def limitation(self) -> str | None:
        """Reason why every transaction that a client sends is refused; None if good ones are taken."""
        closed = self.closed
        if closed is not None:
            return closed
        if self.options.transactions_disabled:
            return NOT_PERMITTED
        if self.pool.fault is not None:
            return self.pool.fault
        return None if self.handover is not None else self.validator.limitation

    # ---- requests --------------------------------------------------------------------------

    def waiting_reason(self, tx_hash: bytes) -> str | None:
        """Reason why a pending transaction can be in no block yet, once that is worth a word; None for no reason."""
        if self.pool.unforwarded_since(tx_hash) is not None and (closed := self.closed) is not None:
            return f"It waits in this node's pool: {closed}"
        return None if self.handover is None else self.handover.waiting_reason(tx_hash)

    def validate(
        self,
        tx: Tx,
        view: View,
        *,
        is_simulation: bool = False,
        skip_fee_enforcement: bool = False,
        may_wait_for_price: bool = False,
        client: str = "",
    ) -> TxValidationResult:
        """Verdict on a transaction for the next block, or a later one with ``may_wait_for_price``.

        ``client``: who asks, so that each has its turn.
        """
        return self.validator.validate(
            tx,
            ViewLedger(view),
            self._fees.current(view),
            is_simulation=is_simulation,
            skip_fee_enforcement=skip_fee_enforcement,
            may_wait_for_price=may_wait_for_price,
            client=client,
        )

    def send(self, tx: Tx, view: View, *, client: str = "") -> Added:
        """Validate, keep and hand on a client's transaction; Refused says why not.

        When this returns the transaction is on disk.
        """
        try:
            return self._send(tx, view, client)
        except Refused as error:
            code = error.data.get("code") if isinstance(error.data, dict) else None
            self.rejections[str(code or _NO_CODE)] += 1
            raise

    def _send(self, tx: Tx, view: View, client: str) -> Added:
        self.require_open()
        result = self.validate(tx, view, client=client)
        if self.handover is not None and result.needs_other_judge:
            return self._let_judge(self.handover, tx)
        _require_covered(result, tx, view)
        _require_valid(result)
        tx_json = tx.to_json_bytes()
        outcome = self.pool.add(tx, tx_json, origin=Origin.CLIENT, proof_checked=self.judge.verifies)
        handover, told = self._audience(tx.hash, outcome)
        if handover is not None:
            handover.offer(tx.hash, tx_json)
        for tell in told:
            tell(tx, tx_json)
        return outcome

    def _audience(self, tx_hash: bytes, outcome: Added) -> tuple[Handover | None, Sequence[_Told]]:
        """Receivers of a transaction, before its client has an answer."""
        if outcome is Added.ACCEPTED:
            return self.handover, self._on_accepted
        is_repeated = outcome is Added.KNOWN and self.pool.unforwarded_since(tx_hash) is not None
        return None, self._on_repeated if is_repeated else ()

    def take(self, newcomers: Sequence[tuple[PoolEntry, bytes]]) -> list[Added | FastnodeError]:
        """Keep clients' transactions that another process of this node found valid.  What :meth:`after_taking` gives is
        done before they are answered."""
        try:
            self.require_open()
        except Refused as error:
            return [error] * len(newcomers)
        return self.pool.insert_all(newcomers, origin=Origin.CLIENT)

    def require_open(self) -> None:
        """Refused when clients may send no transaction."""
        closed = self.closed
        if closed is not None:
            raise Refused(closed, data={"code": "NO_TRANSACTIONS"})

    def after_taking(self, tx_hash: bytes, tx_json: bytes, outcome: Added) -> Callable[[], None] | None:
        """Work that gives one that was taken to other nodes and to what builds blocks; None: there is none.  It may
        block, and raises Refused when another node refuses it."""
        handover, told = self._audience(tx_hash, outcome)
        if (handover is None and not told) or self.pool.unforwarded_since(tx_hash) is None:
            return None

        def work() -> None:
            if handover is not None:
                handover.offer(tx_hash, tx_json)
            if told:
                tx = Tx.from_json(orjson.loads(tx_json), self.pool.release)
                for tell in told:
                    tell(tx, tx_json)

        return work

    @property
    def closed(self) -> str | None:
        """Reason why clients may send no transaction, whatever an operator says; None if they may."""
        return self._closed()

    def _let_judge(self, handover: Handover, tx: Tx) -> Added:
        """Another node judges what this one cannot; the pool's own rules come first."""
        outcome = self.pool.consider(tx, origin=Origin.CLIENT)
        if outcome is not Added.ACCEPTED:
            return outcome
        tx_json = tx.to_json_bytes()
        handover.ask(tx_json)
        try:
            return self.pool.add(tx, tx_json, origin=Origin.CLIENT, forwarded=True)
        except Refused as error:
            # The pool has changed meanwhile.  The other node has the transaction, so the sender gets no error.
            logger.warning("tx 0x%s is pending at the upstream and not here: %s", tx.hash.hex(), error.message)
            return Added.IGNORED

    def receive(self, tx: Tx, view: View, *, forwarded: bool = True) -> Added:
        """Take a transaction that another node holds and has judged: it is not handed on, and rank decides.

        ``forwarded`` False: it still has to be handed on.  Refused says why not; a price below the current one is a
        reason only where the release calls it invalid: that node may have seen another price.
        """
        result = self.validate(tx, view, may_wait_for_price=not self.pool.release.low_price_is_invalid)
        if not result.needs_other_judge:
            _require_valid(result)
        checked = result.is_valid and self.judge.verifies
        return self.pool.add(tx, tx.to_json_bytes(), origin=Origin.NODE, forwarded=forwarded, proof_checked=checked)

    # ---- the chain moves ---------------------------------------------------------------------

    def on_committed(self, committed: Committed) -> None:
        """Tell the pool what has changed.  From the thread that ingests; the view has a state."""
        ledger = ViewLedger(committed.view)
        if not self._is_in_line or committed.undone or len(committed.blocks) > _BLOCKS_FOLLOWED_MAX:
            self.pool.on_undo(ledger)
            self._is_in_line = True
        elif not self.pool.is_empty:
            for block in committed.blocks:
                self.pool.on_block(ledger, block)
        self.pool.set_ledger(ledger)
        finalized = committed.view.chain.tips.finalized.block.number
        if finalized != self._finalized:
            self._finalized = finalized
            self.pool.on_finalized(finalized)


def _require_covered(result: TxValidationResult, tx: Tx, view: View) -> None:
    """As the pool says it of a payer that has too little for all of its transactions."""
    if BALANCE_TOO_LOW in result.reasons:
        entry = PoolEntry.of(tx, view.chain.chain.release)
        balance = ViewLedger(view).fee_juice_balance(entry.fee_payer)
        refusal = insufficient_balance(entry, balance, balance + entry.claim)
        raise Refused(f"Invalid tx: {', '.join(result.reasons)}", data=refusal.data | {"reasons": list(result.reasons)})


def _require_valid(result: TxValidationResult) -> None:
    if not result.is_valid:
        reasons = ", ".join(result.reasons)
        data = {"code": "INVALID_TX", "result": result.result, "reasons": list(result.reasons)}
        raise Refused(f"Invalid tx: {reasons}", data=data)
