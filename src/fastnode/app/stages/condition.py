"""The state of the node, collected from its parts: whether it is ready, how the chain is followed, what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from fastnode.app.ground.health import health_of
from fastnode.app.ground.views import Views
from fastnode.http.health import Health

if TYPE_CHECKING:
    from fastnode.proofs.judge import ProofJudge
    from fastnode.sources.follower import Follower
    from fastnode.sources.l1.service import L1Reader
    from fastnode.sources.sync_control import SyncControl

__all__ = ["Condition"]

_Text = TypeVar("_Text", str, str | None)


class Condition:
    """``follower`` is None when no node is followed, ``l1`` when L1 is not read.

    ``no_transactions`` says why every transaction is refused, None if good ones are taken.
    """

    def __init__(
        self,
        views: Views,
        follower: Follower | None,
        l1: L1Reader | None,
        control: SyncControl,
        no_transactions: Callable[[], str | None],
    ) -> None:
        self._control = control
        self._no_transactions = no_transactions
        self._views = views
        self._follower = follower
        self._l1 = l1
        #: Set from the moment the node is told to stop.
        self.is_stopping = False
        #: While a chain file is loaded.
        self.is_importing = False
        self._faults: list[Callable[[], Mapping[str, str | None]]] = []
        self._troubles: list[Callable[[], Mapping[str, str | None]]] = []
        self._states: list[Callable[[], Mapping[str, str]]] = []
        #: Judge of proofs, which may have trouble.
        self.judge: ProofJudge | None = None
        #: Parts that serving does not need and that this node runs without, with the reason.
        self.missing: dict[str, str] = {}

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
        return self._no_transactions() if self.is_ready() else "the chain is not new enough yet"

    def is_ready(self) -> bool:
        """True if the chain is new enough to be served."""
        return self._follower is None or self._follower.is_ready

    def sync_status(self) -> dict[str, Any] | None:
        """Describe how the chain is followed; None when it is not."""
        if self._follower is None:
            return None
        return self._follower.describe() | ({} if self._l1 is None else {"l1": self._l1.describe()})

    def health(self) -> Health:
        return health_of(
            self._views.newest,
            self.sync_status(),
            is_ready=self.is_ready(),
            is_stopping=self.is_stopping,
            is_importing=self.is_importing,
            faults=_asked(self._faults),
            troubles=_asked(self._troubles) | ({} if self.judge is None else {"proofs": self.judge.fault}),
            notes=self._notes(),
            states=self._history()
            | ({} if self.judge is None else {"proofs": self.judge.summary})
            | _asked(self._states),
        )

    def _history(self) -> dict[str, str]:
        view = self._views.newest
        state = None if view is None else view.state
        return {} if state is None else {"state": f"kept of blocks {state.oldest} to {state.tip.number}"}

    def _notes(self) -> dict[str, str]:
        notes = dict(self.missing) | ({"sync": "paused"} if self._control.is_paused else {})
        refusal = self._no_transactions()
        return notes if refusal is None else notes | {"transactions": f"refused: {refusal}"}


def _asked(parts: Iterable[Callable[[], Mapping[str, _Text]]]) -> dict[str, _Text]:
    return {name: text for part in parts for name, text in part().items()}
