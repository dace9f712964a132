"""Checks of settings that need nothing but their values, which parts of the node would else make when they open.

They run before a start opens a port or a database, and in ``fastnode config show``.  Nothing is written, sent or
fetched: values that other nodes or the stored chain contradict are not found here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastnode.app.ground.node_settings import memory_budget_of
from fastnode.config.consistency import check_settings
from fastnode.config.settings import Settings, rows
from fastnode.errors import SettingError
from fastnode.serving.api_key import read_key_hash
from fastnode.values.urls import check_url

__all__ = ["check_values"]

#: Settings that are URLs of servers, whether their part runs or not.
_URLS: Final = (
    *("upstream-url", "upstream-admin-url", "public-simulator-url", "web3-signer-url"),
    *("l1-rpc-urls", "l1-consensus-host-urls", "ethereum-debug-hosts", "blob-archive-api-url"),
    *("traces-collector-url", "metrics-collector-url"),
)


def check_values(settings: Settings) -> None:
    """SettingError or another StartError, with one line that says what to change."""
    check_settings(settings)
    _check_urls(settings)
    if settings.admin_api_key_hash is not None:
        read_key_hash(settings.admin_api_key_hash)
    memory_budget_of(settings)
    for is_given, check in _CHECKS:
        if is_given(settings):
            check(settings)


def _check_urls(settings: Settings) -> None:
    by_name = {row.name: row for row in rows(Settings)}
    for row in map(by_name.__getitem__, _URLS):
        value = getattr(settings, row.attribute)
        for text in (value,) if isinstance(value, str) else value or ():
            check_url(text, row.flag)


# ---- values that one part reads; its module is imported where the setting is given only -------------------


def _check_root(settings: Settings) -> None:
    from fastnode.mempool.service import read_vk_tree_root

    assert settings.vk_tree_root is not None
    read_vk_tree_root(settings.vk_tree_root)


def _check_release(settings: Settings) -> None:
    from fastnode.local_network.opening import release_of

    release_of(settings)


def _check_funds(settings: Settings) -> None:
    from fastnode.sources.genesis_funds import funds_of_entries

    funds_of_entries(settings.prefund or ())


def _check_webhooks(settings: Settings) -> None:
    from fastnode.serving.webhooks import hooks_of, read_secret

    hooks_of(settings.webhook_url or ())
    file = settings.webhook_secret_file
    if file is None or file.is_file() or not file.exists():  # a pipe can be read once only
        read_secret(file)


def _check_limits(settings: Settings) -> None:
    from fastnode.app.ground.method_documentation import all_methods
    from fastnode.jsonrpc.rate_limit_rules import read_rate_limit_rules

    assert settings.rpc_limits is not None
    read_rate_limit_rules(settings.rpc_limits, [method.name for method in all_methods()])


def _check_bus(settings: Settings) -> None:
    from fastnode.bus.options import BusOptions

    BusOptions.of(settings)


def _check_peers(settings: Settings) -> None:
    from fastnode.app.roles.peers import peer_options
    from fastnode.p2p.transport.identity import check_identity

    peer_options(settings)
    check_identity(settings.peer_id_private_key, settings.peer_id_private_key_path)


def _check_signers(settings: Settings) -> None:
    from fastnode.keystore.from_settings import keystore_of_settings

    keystore_of_settings(settings)


def _check_keystore(settings: Settings) -> None:
    path = settings.key_store_directory
    if path is not None and not path.exists():
        raise SettingError(f"--key-store-directory {path}: there is no such file or directory")


def _check_verifier(settings: Settings) -> None:
    from fastnode.proofs.command import CommandVerifier

    assert settings.proof_verifier_command is not None
    CommandVerifier.of_text(settings.proof_verifier_command)


def _check_prover(settings: Settings) -> None:
    from fastnode.proofs.command import command_words

    assert settings.prover_command is not None
    command_words(settings.prover_command, "--prover-command")


def _check_upstream_key(settings: Settings) -> None:
    from fastnode.outgoing.admin_questions import check_key

    assert settings.upstream_admin_api_key is not None
    check_key(settings.upstream_admin_api_key)


def _check_blobs(settings: Settings) -> None:
    from fastnode.app.stages.derivation import check_keys

    check_keys(settings)


_CHECKS: Final[tuple[tuple[Callable[[Settings], object], Callable[[Settings], None]], ...]] = (
    (lambda settings: settings.vk_tree_root is not None, _check_root),
    (lambda settings: settings.release is not None, _check_release),
    (lambda settings: settings.prefund, _check_funds),
    (lambda settings: settings.webhook_url, _check_webhooks),
    (lambda settings: settings.rpc_limits is not None, _check_limits),
    (lambda settings: settings.is_in_fleet, _check_bus),
    (lambda settings: settings.p2p_enabled, _check_peers),
    (lambda settings: settings.sequencer or settings.prover_node, _check_signers),
    (lambda settings: settings.sequencer or settings.prover_node, _check_keystore),
    (lambda settings: settings.proof_verifier_command is not None, _check_verifier),
    (lambda settings: settings.prover_node and settings.prover_command is not None, _check_prover),
    (lambda settings: settings.upstream_admin_api_key is not None, _check_upstream_key),
    (lambda settings: settings.derives_from_l1, _check_blobs),
)
