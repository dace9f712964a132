"""The prover node put together: imported only where one is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastnode.errors import StartError, UpstreamError
from fastnode.kernels import encode
from fastnode.proving.prover import NEEDS_COMMAND, Prover, ProverOptions, has_mock_verifier
from fastnode.proving.reexecution import Reexecution
from fastnode.sources.l1.rollup import Wanted

if TYPE_CHECKING:
    from fastnode.app.condition import Condition
    from fastnode.app.opened import Opened
    from fastnode.app.publishing import Publishing
    from fastnode.app.views import Views
    from fastnode.mempool.service import Mempool

__all__ = ["Proving"]


class Proving:
    """Prover of a node with ``--prover-node``, and its parts.  StartError where it cannot prove."""

    def __init__(self, opened: Opened) -> None:
        if opened.l1 is None:
            raise StartError("--prover-node: the chain must be derived from L1 (--l1-rpc-urls and a place of blobs)")
        self._opened = opened
        self._prover: Prover | None = None

    def join(self, views: Views, mempool: Mempool, condition: Condition, publishing: Publishing) -> None:
        """Once the chain is known."""
        opened = self._opened
        settings, reader = opened.settings, opened.l1
        assert reader is not None
        if settings.prover_command is None:
            self._require_mock_verifier()
        publisher, prover_id = publishing.for_proofs(), publishing.prover_id
        assert prover_id is not None
        reexecution = Reexecution(views.newest, mempool.pool.tx_json)
        views.subscribe(reexecution.on_committed)
        named = settings.prover_id
        options = ProverOptions(
            prover_id=prover_id if named is None else encode.from_hex(named),
            command=settings.prover_command,
            proves_parts=settings.prover_partial_epochs,
            delay_s=settings.prover_test_delay_ms / 1000,
        )
        self._prover = Prover(reader, lambda: views.newest, reexecution, publisher, options, mempool.pool.tx_json)
        condition.mention(self._prover.troubles)
        condition.tell("prover", self._prover.summary)

    def _require_mock_verifier(self) -> None:
        """StartError when L1 answers and its verifier looks at proofs; an L1 that is away is asked later."""
        reader, chain = self._opened.l1, self._opened.data.store.chain
        assert reader is not None
        facts = reader.try_learn(Wanted.of(chain.node_info, self._opened.settings.registry_address))
        if facts is None:
            return
        try:
            is_mock = reader.run(lambda endpoint: has_mock_verifier(endpoint, facts.rollup))
        except UpstreamError:
            return
        if not is_mock:
            raise StartError(NEEDS_COMMAND)

    @property
    def prover(self) -> Prover:
        assert self._prover is not None
        return self._prover

    def describe(self) -> dict[str, Any]:
        """For the status page."""
        return self.prover.describe()

    def start(self) -> None:
        self.prover.start()

    def stop(self) -> None:
        if self._prover is not None:
            self._prover.stop()
