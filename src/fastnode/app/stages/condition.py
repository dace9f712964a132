"""The state of the node, collected from its parts: whether it is ready, how the chain is followed, what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from fastnode.app.ground import sample
from fastnode.app.ground.health import health_of
from fastnode.app.ground.views import Views
from fastnode.http.health import Health

if TYPE_CHECKING:
    from fastnode.app.ground.part import Part
    from fastnode.mempool.service import Mempool
    from fastnode.sources.sync_control import SyncControl

__all__ = ["Condition"]

_Text = TypeVar("_Text", str, str | None)


class Condition:
    """``is_sample``: the chain is the recording that comes with the package; ``accepts_sample``: it counts as ready."""

    def __init__(
        self,
        views: Views,
        control: SyncControl,
        mempool: Mempool,
        *,
        is_sample: bool = False,
        accepts_sample: bool = False,
    ) -> None:
        self._control = control
        self._mempool = mempool
        self._views = views
        #: Set from the moment the node is told to stop.
        self.is_stopping = False
        #: While a chain file is loaded.
        self.is_importing = False
        self.is_sample = is_sample
        self._no_traffic = sample.NOT_READY if is_sample and not accepts_sample else None
        #: True while the operator wants no blocks from this node.
        self.holds_blocks = False
        self._faults: list[Callable[[], Mapping[str, str | None]]] = []
        self._troubles: list[Callable[[], Mapping[str, str | None]]] = []
        self._states: list[Callable[[], Mapping[str, str]]] = []
        self._parts: list[Part] = []
        #: Parts that serving does not need and that this node runs without, with the reason.
        self.missing: dict[str, str] = {}

    def add(self, part: Part) -> None:
        """Ask a part too, whatever there is to ask."""
        self._parts.append(part)
        self.watch(part.faults)
        self.mention(part.troubles)
        self.tell(part.states)

    def watch(self, *faults: Callable[[], Mapping[str, str | None]]) -> None:
        """Add sources of faults: what keeps each part from its work, None for nothing.  They make the node unready."""
        self._faults += faults

    def mention(self, *troubles: Callable[[], Mapping[str, str | None]]) -> None:
        """Add sources of troubles: what is wrong with parts that serving does not need."""
        self._troubles += troubles

    def tell(self, *states: Callable[[], Mapping[str, str]]) -> None:
        """Add sources of lines that say how each part is."""
        self._states += states

    @property
    def is_paused(self) -> bool:
        """True if an operator or a snapshot has paused ingestion."""
        return self._control.is_paused

    def no_transactions_because(self) -> str | None:
        """Reason that no transaction is taken now, None if good ones are: the answer of node_isReady."""
        view = self._views.newest
        if view is None or view.state is None or self.is_importing:
            return "the chain is being loaded"
        return self._mempool.limitation if self.is_ready() else "the chain is not new enough yet"

    def is_ready(self) -> bool:
        """True if the chain is new enough to be served."""
        return all(part.is_ready() for part in self._parts)

    def sync_status(self) -> dict[str, Any] | None:
        """Describe how the chain is followed; None when it is not."""
        return {name: value for part in self._parts for name, value in part.sync_status().items()} or None

    def health(self) -> Health:
        return health_of(
            self._views.newest,
            self.sync_status(),
            is_ready=self.is_ready(),
            is_stopping=self.is_stopping,
            is_importing=self.is_importing,
            no_traffic=self._no_traffic,
            faults=_asked(self._faults),
            troubles=_asked(self._troubles) | {"proofs": self._mempool.judge.fault},
            notes=self._notes(),
            states=self._history() | {"proofs": self._mempool.judge.summary} | _asked(self._states),
        )

    def _history(self) -> dict[str, str]:
        view = self._views.newest
        if view is None:
            return {}
        chain, state = view.chain, view.state
        kept = {"chain": f"bodies kept of blocks {min(chain.oldest_body, chain.tip_number)} to {chain.tip_number}"}
        return kept if state is None else kept | {"state": f"kept of blocks {state.oldest} to {state.tip.number}"}

    def _notes(self) -> dict[str, str]:
        notes = dict(self.missing) | ({"sync": "paused"} if self._control.is_paused else {})
        if self.is_sample:
            notes["chain"] = sample.NOTE
        if self.holds_blocks:
            notes["blocks"] = "none are built: paused by the operator"
        refusal = self._mempool.limitation
        return notes if refusal is None else notes | {"transactions": f"refused: {refusal}"}


class BlockHold:
    """Holds the production of blocks of a node; ``wake`` is called when it may go on."""

    def __init__(self, condition: Condition, wake: Callable[[], object]) -> None:
        self._condition = condition
        self._wake = wake

    def hold(self) -> None:
        self._condition.holds_blocks = True

    def go_on(self) -> None:
        self._condition.holds_blocks = False
        self._wake()


def _asked(parts: Iterable[Callable[[], Mapping[str, _Text]]]) -> dict[str, _Text]:
    return {name: text for part in parts for name, text in part().items()}
