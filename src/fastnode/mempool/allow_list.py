"""Public calls that every node lets a transaction make before its fee is secured."""

from __future__ import annotations

from fastnode.config.allow_list import AllowedElement
from fastnode.protocol.releases import Release

__all__ = ["default_allow_list"]


def default_allow_list(release: Release) -> tuple[AllowedElement, ...]:
    """Calls that every node of a release allows: authorizing a call (private and public form), and a fee payment out of
    a private balance."""
    addresses = release.addresses
    return (
        AllowedElement(
            address=addresses.auth_registry,
            selector=bytes.fromhex("61966b7c"),  # _set_authorized((Field),Field,bool)
            calldata_length=4,
            only_self=True,
            reject_null_msg_sender=True,
        ),
        AllowedElement(
            address=addresses.auth_registry,
            selector=bytes.fromhex("b839de91"),  # set_authorized(Field,bool)
            calldata_length=3,
            reject_null_msg_sender=True,
        ),
        AllowedElement(
            address=addresses.fee_juice,
            selector=bytes.fromhex("e7f045ff"),  # _increase_public_balance((Field),u128)
            calldata_length=3,
            only_self=True,
        ),
    )
