"""The release of a network, by what its rollup contract or a node says of it."""

from __future__ import annotations

from fastnode.errors import StartError
from fastnode.protocol import releases
from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import Release

__all__ = ["choose_release"]


def choose_release(
    vk_tree_root: bytes, contracts_hash: bytes, who: str, *, is_rollup: bool = False, takes_untried: bool = False
) -> Release:
    """The release of these roots; StartError when no record has them, or when it is not followed from there.

    ``is_rollup``: the rollup contract names them, and the chain is derived from L1; else another node does, which may
    be of a release that no published node was tried with if ``takes_untried``.
    """
    release = releases.of_roots(vk_tree_root, contracts_hash)
    roots = f"verification keys {hex_text(vk_tree_root)}, protocol contracts {hex_text(contracts_hash)}"
    if release is None:
        known = ", ".join(one.name for one in releases.known())
        raise StartError(
            f"{who} is of a release that has no record here ({roots}; known: {known}): use a newer fastnode, or give "
            f"--release-record FILE if the release differs from these in values only"
        )
    if not (release.may_be_asked(takes_untried=takes_untried) or (is_rollup and release.is_derived)):
        served = ", ".join(one.name for one in releases.known() if one.is_served)
        whole = "follows" if is_rollup else "follows nodes of"
        raise StartError(f"{who} is of release {release.name} ({roots}), this node {whole} {served} only")
    return release
