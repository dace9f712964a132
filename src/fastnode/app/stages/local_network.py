"""Work that a node does beside its chain when it is a local network; a node that is none has a part that does nothing.

Modules of a local network are imported on demand: few nodes are one, and every start would pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastnode.app.stages.condition import BlockHold, Condition
from fastnode.serving.same_origin import OriginsOfPages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from fastnode.config.settings import Settings
    from fastnode.jsonrpc.methods import Method
    from fastnode.local_network.network import LocalNetwork
    from fastnode.local_network.options import Fork
    from fastnode.log_index.function_names import FunctionNames
    from fastnode.serving.server import RpcServer
    from fastnode.view import View

__all__ = ["LocalRole", "NoLocalNetwork", "local_role_of"]


class NoLocalNetwork:
    """A node whose chain others build."""

    #: The network itself, for who answers methods of it.
    network: LocalNetwork | None = None

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def let_reset(self, make: Callable[[Fork], None]) -> None:
        """Have ``make`` called when the network is to begin anew."""

    def hold_of(self, condition: Condition) -> BlockHold | None:
        """Hold of the production of blocks; None: this node builds none."""
        # A sequencer looks at each slot anew.
        return BlockHold(condition, lambda: None) if self._settings.sequencer else None

    def serve_with(self, public: RpcServer, methods: Sequence[Method]) -> list[Method]:
        """Methods of the public port that the admin port has too; ``public`` is set up for the network."""
        return []

    def panel(self) -> Callable[[View], dict[str, Any]] | None:
        """Part of the status page; None: it has none."""
        return None

    def clock_methods(self, names: FunctionNames) -> list[Method] | None:
        """Methods of the port for the clock of L1; None: there is no such port."""
        return None

    def own(self, server: RpcServer) -> None:
        """Let pages of the network change it through ``server``."""


class LocalRole(NoLocalNetwork):
    """A node that is a local network."""

    network: LocalNetwork

    def __init__(self, settings: Settings, network: LocalNetwork) -> None:
        super().__init__(settings)
        self.network = network

    def let_reset(self, make: Callable[[Fork], None]) -> None:
        self.network.on_reset = make

    def hold_of(self, condition: Condition) -> BlockHold:
        self.network.is_held = lambda: condition.holds_blocks
        return BlockHold(condition, self.network.wake)

    def serve_with(self, public: RpcServer, methods: Sequence[Method]) -> list[Method]:
        from fastnode.status_page.local_network import BUTTON_METHODS

        self.own(public)
        self.network.wallet_reads.count = _reads_of_wallets(public)
        return [method for method in methods if method.name in BUTTON_METHODS]

    def panel(self) -> Callable[[View], dict[str, Any]]:
        from fastnode.local_network.opening import funds_of
        from fastnode.status_page.local_network import LocalNetworkPanel

        return LocalNetworkPanel(self.network, funds_of(self._settings)).describe

    def clock_methods(self, names: FunctionNames) -> list[Method] | None:
        if self._settings.l1_clock_port is None:
            return None
        from fastnode.api.l1_clock import clock_methods
        from fastnode.api.local_network import methods
        from fastnode.local_network.changes import Changes

        changes = Changes(self.network)
        return clock_methods(self.network, changes, methods(self.network, changes, names))

    def own(self, server: RpcServer) -> None:
        settings = self._settings
        server.set_own_pages(OriginsOfPages(settings.admin_names or (), settings.local_network_origins or ()))


def local_role_of(settings: Settings, network: LocalNetwork | None) -> NoLocalNetwork:
    return NoLocalNetwork(settings) if network is None else LocalRole(settings, network)


def _reads_of_wallets(public: RpcServer) -> Callable[[], int]:
    from fastnode.local_network.wallet_reads import READS_OF_WALLETS

    meters = public.engine.meters
    assert meters is not None
    calls = meters.calls
    return lambda: sum(sum(calls.histogram(name)[0]) for name in READS_OF_WALLETS)
