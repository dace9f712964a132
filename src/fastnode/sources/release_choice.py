"""The release of a network, by what its rollup contract or a node says of it."""

from __future__ import annotations

from fastnode.errors import StartError, UnknownRollup
from fastnode.protocol import releases
from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import Release

__all__ = ["choose_release", "older_rollups"]


def choose_release(
    vk_tree_root: bytes, contracts_hash: bytes, who: str, *, is_rollup: bool = False, takes_untried: bool = False
) -> Release:
    """The release of these roots; StartError when no record has them, or when it is not followed from there.

    ``is_rollup``: the rollup contract names them, and the chain is derived from L1 (the error is UnknownRollup then);
    else another node does, which may be of a release that no published node was tried with if ``takes_untried``.
    """
    refusal = UnknownRollup if is_rollup else StartError
    release = releases.of_roots(vk_tree_root, contracts_hash)
    roots = f"verification keys {hex_text(vk_tree_root)}, protocol contracts {hex_text(contracts_hash)}"
    if release is None:
        known = ", ".join(one.name for one in releases.known())
        nearest = _nearest(vk_tree_root, contracts_hash)
        raise refusal(
            f"{who} is of a release that has no record here ({roots}; known: {known}){nearest}: "
            f"use a newer fastnode, or give --release-record FILE if the release differs from these in values only"
        )
    if not (release.may_be_asked(takes_untried=takes_untried) or (is_rollup and release.is_derived)):
        served = ", ".join(one.name for one in releases.known() if one.is_served)
        whole = "follows" if is_rollup else "follows nodes of"
        raise refusal(f"{who} is of release {release.name} ({roots}), this node {whole} {served} only")
    return release


def _nearest(vk_tree_root: bytes, contracts_hash: bytes) -> str:
    """Name a release that has one of two roots, with the value that differs; the newest one with both if none has."""
    for release in releases.known():
        if release.vk_tree_root == vk_tree_root:
            return f"; release {release.name} has protocol contracts {hex_text(release.contracts_hash)}"
        if release.contracts_hash == contracts_hash:
            return f"; release {release.name} has verification keys {hex_text(release.vk_tree_root)}"
    newest = releases.known()[-1]
    return (
        f"; release {newest.name} has verification keys {hex_text(newest.vk_tree_root)}, protocol contracts "
        f"{hex_text(newest.contracts_hash)}"
    )


def older_rollups(chain_id: int, registry: bytes | None, version: int) -> str:
    """Return advice about other rollups of a registry that this program follows; nothing if none is known.

    ``version``: of the rollup that cannot be followed.
    """
    wanted = chain_id, int.from_bytes(registry or b"", "big")
    networks = [
        network
        for release in releases.known()
        for network in release.networks.values()
        if (network["l1ChainId"], int(network["registryAddress"], 16)) == wanted
    ]
    found = [
        f"--rollup-version {number} ({name})"
        for network in networks
        for number, name in network.get("rollups", {}).items()
        if int(number) != version
    ]
    if not found:
        return ""
    date = max(network.get("date", "") for network in networks)
    known = f" (known on {date})" if date else ""
    return f"; older rollups of this registry{known}, not canonical, can be followed: {', '.join(dict.fromkeys(found))}"
