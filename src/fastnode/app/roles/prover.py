"""The prover of a node with ``--prover-node``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastnode.app.ground.part import Part
from fastnode.config.config_keys import PROVER
from fastnode.errors import StartError, UpstreamError
from fastnode.kernels import encode
from fastnode.proving.prover import NEEDS_COMMAND, Prover, ProverOptions, has_mock_verifier
from fastnode.proving.reexecution import Reexecution
from fastnode.sources.l1.rollup import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.core import Metric

    from fastnode.app.roles.l1_writer import L1Writer
    from fastnode.app.stages.core import Core
    from fastnode.config.configuration import ConfigView
    from fastnode.serving.server import RpcServer
    from fastnode.sources.l1.service import L1Reader
    from fastnode.view import Committed

__all__ = ["ProverPart"]


class ProverPart(Part):
    """StartError where it cannot prove."""

    def __init__(self, core: Core, writer: L1Writer) -> None:
        settings, chain, views = core.foundation.settings, core.foundation.data.store.chain, core.views
        wanted = Wanted.of(chain.node_info, settings.registry_address)
        if settings.prover_command is None:
            _require_mock_verifier(writer.reader, wanted)
        self._writer = writer
        publication = writer.for_proofs()
        configured = core.configuration.attach(PROVER, self._reconfigure)
        tx_json = core.mempool.pool.tx_json
        self._reexecution = Reexecution(views.newest, tx_json)
        options = ProverOptions(
            prover_id=self._prover_id(configured),
            command=settings.prover_command,
            proves_parts=settings.prover_partial_epochs,
            delay_s=configured["proverTestDelayMs"] / 1000,
        )
        self._prover = Prover(writer.reader, lambda: views.newest, self._reexecution, publication, options, tx_json)

    def _reconfigure(self, view: ConfigView, _changed: frozenset[str]) -> None:
        self._prover.reconfigure(prover_id=self._prover_id(view), delay_s=view["proverTestDelayMs"] / 1000)

    def _prover_id(self, view: ConfigView) -> bytes:
        """The configured one, else that of the keystore."""
        if view["proverId"] is not None:
            return encode.from_hex(view["proverId"])
        prover_id = self._writer.prover_id
        assert prover_id is not None  # an account pays for proofs
        return prover_id

    def start(self, public: RpcServer) -> None:
        self._prover.start()

    def stop(self) -> None:
        self._writer.stop()  # no proof waits for L1 any longer
        self._prover.stop()

    def on_committed(self, committed: Committed) -> None:
        self._reexecution.on_committed(committed)

    def troubles(self) -> Mapping[str, str | None]:
        return self._prover.troubles()

    def states(self) -> Mapping[str, str]:
        return {"prover": self._prover.summary()}

    def describe(self) -> Mapping[str, Any]:
        return {"prover": self._prover.describe()}

    def metrics(self) -> Iterable[Metric]:
        from fastnode.metrics.proposing import prover_metrics

        return prover_metrics(self._prover.describe())


def _require_mock_verifier(reader: L1Reader, wanted: Wanted) -> None:
    """StartError when L1 answers and its verifier looks at proofs; an L1 that is away is asked later."""
    facts = reader.try_learn(wanted)
    if facts is None:
        return
    try:
        is_mock = reader.run(lambda endpoint: has_mock_verifier(endpoint, facts.rollup))
    except UpstreamError:
        return
    if not is_mock:
        raise StartError(NEEDS_COMMAND)
