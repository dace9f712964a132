"""Webhooks of a node with ``--webhook-url``: what happens on the chain, posted to other servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastnode.app.ground.part import Part
from fastnode.serving.webhooks import DIRECTORY, Hook, Webhooks, hooks_of, read_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.core import Metric

    from fastnode.app.stages.core import Core
    from fastnode.config.settings import Settings
    from fastnode.serving.server import RpcServer
    from fastnode.view import Committed

__all__ = ["WebhooksPart", "read_webhooks"]


def read_webhooks(settings: Settings) -> tuple[list[Hook], bytes]:
    """The hooks and the secret that signs their messages.  Once: a secret may come in a pipe.

    SettingError when what is to be sent where, or signed with what, makes no sense.
    """
    return hooks_of(settings.webhook_url or ()), read_secret(settings.webhook_secret_file)


class WebhooksPart(Part):
    def __init__(self, core: Core, hooks: list[Hook], secret: bytes) -> None:
        directory, views = core.foundation.data.directory.path / DIRECTORY, core.views
        self._webhooks = Webhooks(hooks, secret, directory, lambda: views.newest, core.artifacts)

    def start(self, public: RpcServer) -> None:
        self._webhooks.start()

    def stop(self) -> None:
        self._webhooks.close()

    def on_committed(self, committed: Committed) -> None:
        self._webhooks.on_committed(committed)

    def troubles(self) -> Mapping[str, str | None]:
        return self._webhooks.troubles()

    def states(self) -> Mapping[str, str]:
        return {"webhooks": self._webhooks.state()}

    def metrics(self) -> Iterable[Metric]:
        from fastnode.metrics.webhooks import webhook_metrics

        return webhook_metrics(self._webhooks)
