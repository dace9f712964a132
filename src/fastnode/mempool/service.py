"""The mempool as a node uses it: validation, pool, prices and simulator over one chain.

mempool = Mempool.open(directory / "p2p", view, MempoolOptions(...))
methods = tx_methods.methods(mempool)                 # api/txs.py
chain_methods.methods(is_pending_tx=mempool.pool.is_waiting)
mempool.on_view(view)                                 # after each published view, in the thread that ingests
mempool.close()                                       # before the chain's databases
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from fastnode.config.allow_list import DEFAULT_ALLOW_LIST, AllowedElement
from fastnode.errors import RpcError, ServerError, SettingError
from fastnode.fees.sources import ChainFees, FeeSource
from fastnode.kernels import encode
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.ledger import ViewLedger
from fastnode.mempool.network import NetworkIdentity
from fastnode.mempool.pool import Added, Origin, PoolOptions, TxPool, TxSink
from fastnode.mempool.proofs import ProofVerifier, choose_verifier
from fastnode.mempool.simulation import PublicSimulator, UpstreamSimulator
from fastnode.mempool.validation import PROTOCOL_CAPS, GasCaps, TxValidationResult, TxValidator, ValidationRules
from fastnode.protocol.tx import Tx

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo, ChainView
    from fastnode.config.settings import Settings
    from fastnode.view import View

__all__ = ["Mempool", "MempoolOptions"]

#: A view that is further ahead than this is compared as a whole instead of block by block.
_BLOCKS_FOLLOWED_MAX: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class MempoolOptions:
    """What an operator decides; the fields are the settings of the same names."""

    p2p_max_pending_tx_count: int = 1000
    p2p_rpc_price_bump_percentage: int = 10
    p2p_tx_pool_delete_txs_after_reorg: bool = False
    transactions_disabled: bool = False
    #: Entries beside the protocol's own.
    setup_allow_list_extension: Sequence[AllowedElement] = ()
    proof_verifier_command: str | None = None
    proof_verifier_processes: int = 2
    proof_verifier_timeout_s: float = 30.0
    #: An operator's limits on a transaction's gas, below the protocol's.
    validate_max_l2_block_gas: int | None = None
    validate_max_da_block_gas: int | None = None
    rpc_simulate_public_max_gas_limit: int = 10_000_000_000
    vk_tree_root: bytes | None = None
    public_simulator_url: str | None = None

    def lower(self, caps: GasCaps) -> GasCaps:
        """``caps`` with the operator's limits."""
        return caps.lowered(l2_gas=self.validate_max_l2_block_gas, da_gas=self.validate_max_da_block_gas)

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
            validate_max_l2_block_gas=settings.validate_max_l2_block_gas,
            validate_max_da_block_gas=settings.validate_max_da_block_gas,
            rpc_simulate_public_max_gas_limit=settings.rpc_simulate_public_max_gas_limit,
            vk_tree_root=_read_vk_tree_root(settings.vk_tree_root),
            public_simulator_url=_read_url(settings.public_simulator_url),
        )


def _caps_of(chain: ChainInfo) -> GasCaps:
    """The most gas that the protocol and the rollup let a transaction ask for."""
    mana_limit = chain.l1_constants.get("rollupManaLimit")
    return PROTOCOL_CAPS.lowered(l2_gas=None if mana_limit is None else int(mana_limit))


def _read_vk_tree_root(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return encode.field_from_text(text)
    except ValueError as error:
        raise SettingError(f"--vk-tree-root {text!r} is no field element: {error}") from None


def _read_url(text: str | None) -> str | None:
    if text is not None and not text.startswith(("http://", "https://")):
        raise SettingError(f"--public-simulator-url {text!r} is no http:// or https:// URL")
    return text


class Mempool:
    """Usable from any thread.  ``fees``, ``sink`` and ``simulator`` may be replaced before the node serves."""

    def __init__(self, pool: TxPool, validator: TxValidator, view: View, options: MempoolOptions) -> None:
        self.pool = pool
        self.validator = validator
        self.options = options
        self._network_caps = _caps_of(view.chain.chain)
        self.fees: FeeSource = ChainFees()
        self.sink: TxSink | None = None
        self.simulator: PublicSimulator | None = None
        if options.public_simulator_url is not None:
            self.simulator = UpstreamSimulator(options.public_simulator_url)
        #: Transactions of clients that were refused, by the code of the error.
        self.rejections: Counter[str] = Counter()
        self._followed: _Position | None = None
        if view.state is not None:
            self._followed = _Position.of(view.chain)
            pool.on_finalized(self._followed.finalized)

    @classmethod
    def open(
        cls,
        path: Path,
        view: View,
        options: MempoolOptions | None = None,
        *,
        verifier: ProofVerifier | None = None,
        now: Callable[[], float] = time.time,
    ) -> Self:
        """Open or create the pool at ``path`` over the chain at its tip.

        If ``view`` has no state yet the pool takes nothing before the first view that has.

        ``verifier`` replaces the one that the options ask for, ``now`` the clock on the wall.  Raises
        DataDirectoryError or SettingError.
        """
        options = options or MempoolOptions()
        chain = view.chain.chain
        clock = SlotClock.of_chain(chain, now)
        caps = options.lower(_caps_of(chain))
        rules = ValidationRules(
            network=NetworkIdentity.of_view(view.chain, vk_tree_root=options.vk_tree_root),
            setup_allow_list=(*DEFAULT_ALLOW_LIST, *options.setup_allow_list_extension),
            gas_caps=caps,
            transactions_permitted=not options.transactions_disabled,
        )
        verifier = verifier or choose_verifier(
            real_proofs=bool(chain.node_info.get("realProofs", True)),
            command=options.proof_verifier_command,
            processes_max=options.proof_verifier_processes,
            timeout_s=options.proof_verifier_timeout_s,
        )
        pool_options = PoolOptions(
            pending_max=options.p2p_max_pending_tx_count,
            price_bump_percentage=options.p2p_rpc_price_bump_percentage,
            delete_after_reorg=options.p2p_tx_pool_delete_txs_after_reorg,
            gas_caps=caps,
        )
        ledger = None if view.state is None else ViewLedger(view)
        pool = TxPool.open(path, ledger, clock, genesis_hash=chain.genesis_block_hash, options=pool_options)
        return cls(pool, TxValidator(rules, clock, verifier), view, options)

    def close(self) -> None:
        self.pool.close()

    def reconfigure(self, options: MempoolOptions) -> None:
        """Go on with other options: those for the allow list, gas, permission and the pool's size take effect.

        Pending transactions that the new options would not admit leave the pool.
        """
        self.options = options
        caps = options.lower(self._network_caps)
        self.validator.rules = replace(
            self.validator.rules,
            setup_allow_list=(*DEFAULT_ALLOW_LIST, *options.setup_allow_list_extension),
            gas_caps=caps,
            transactions_permitted=not options.transactions_disabled,
        )
        self.pool.options = replace(self.pool.options, pending_max=options.p2p_max_pending_tx_count, gas_caps=caps)
        if self._followed is not None:  # else the first view with a state brings everything in line
            self.pool.recheck()

    def require_proofs(self, required: bool) -> None:
        """Whether transactions must have a valid proof; a verifier that the operator configured is always asked."""
        if self.options.proof_verifier_command is None:
            self.validator.set_verifier(choose_verifier(real_proofs=required, command=None))

    # ---- requests --------------------------------------------------------------------------

    def validate(
        self, tx: Tx, view: View, *, is_simulation: bool = False, skip_fee_enforcement: bool = False
    ) -> TxValidationResult:
        """Whether the transaction could be in the next block."""
        return self.validator.validate(
            tx,
            ViewLedger(view),
            self.fees.current(view),
            is_simulation=is_simulation,
            skip_fee_enforcement=skip_fee_enforcement,
        )

    def send(self, tx: Tx, view: View) -> Added:
        """Validate, keep and hand on a client's transaction; an RpcError says why not.

        When this returns the transaction is on disk.
        """
        try:
            self._require_valid(tx, view)
            tx_json = tx.to_json_bytes()
            outcome = self.pool.add(tx, tx_json, origin=Origin.CLIENT)
        except ServerError as error:
            code = error.data.get("code") if isinstance(error.data, dict) else None
            self.rejections[str(code or "NOT_READY")] += 1
            raise
        if outcome is Added.ACCEPTED and self.sink is not None:
            self._forward(self.sink, tx, tx_json)
        return outcome

    def receive(self, tx: Tx, view: View) -> Added:
        """Like :meth:`send` for a transaction that another node holds: it is not handed on, and rank decides."""
        self._require_valid(tx, view)
        return self.pool.add(tx, tx.to_json_bytes(), origin=Origin.NODE)

    def _require_valid(self, tx: Tx, view: View) -> None:
        result = self.validate(tx, view)
        if not result.is_valid:
            reasons = ", ".join(result.reasons)
            data = {"code": "INVALID_TX", "result": result.result, "reasons": list(result.reasons)}
            raise ServerError(f"Invalid tx: {reasons}", data=data)

    def _forward(self, sink: TxSink, tx: Tx, tx_json: bytes) -> None:
        try:
            sink.forward(tx, tx_json)
        except RpcError:
            self.pool.drop(tx.hash, "refused upstream")
            raise

    # ---- the chain moves ---------------------------------------------------------------------

    def on_view(self, view: View) -> None:
        """Tell the pool what changed since the last view it was told of.

        To be called from the one thread that ingests, after the view is published.  ``view`` has a state.
        """
        position = _Position.of(view.chain)
        before, self._followed = self._followed, position
        ledger = ViewLedger(view)
        if before is None or not before.is_in(view.chain) or position.number - before.number > _BLOCKS_FOLLOWED_MAX:
            self.pool.on_undo(ledger)
        elif not self.pool.is_empty:
            for number in range(before.number + 1, position.number + 1):
                block = view.chain.load_block(number)
                assert block is not None
                self.pool.on_block(ledger, block)
        self.pool.set_ledger(ledger)
        if before is None or position.finalized > before.finalized:
            self.pool.on_finalized(position.finalized)


@dataclass(frozen=True, slots=True)
class _Position:
    """Newest and newest final block of a view."""

    number: int
    block_hash: bytes
    finalized: int

    @classmethod
    def of(cls, chain: ChainView) -> Self:
        info = chain.block_info(chain.tip_number)
        assert info is not None
        return cls(info.number, info.hash, chain.tips.finalized.block.number)

    def is_in(self, chain: ChainView) -> bool:
        """Whether a later view has grown out of this one."""
        return chain.block_number_by_hash(self.block_hash) == self.number
