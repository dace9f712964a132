"""Commitments to the effects that set a local network up.

A checkpoint commits to its blob by a sum with one point of a curve for each field.  The fields of these effects are the
same on every chain, so their part of the sum is written down here, and a start works out the part of its own headers
alone.  A test adds all of it up again.
"""

from __future__ import annotations

from typing import Final

from fastnode.protocol.kzg import KnownSum

__all__ = ["SETUP_BLOBS"]

#: In the order of the blocks.
SETUP_BLOBS: Final = (
    KnownSum(
        34,
        bytes.fromhex("303d969b9a803c49220d9e4af80072516a9a0bea68349cd06bdce532daf068ec"),
        bytes.fromhex(
            "90b8d00d158369faf1aa94b6ade600bfc37e281fa2683828548c042c2c03bf4cd9fc9f0fcf3e17a75e02e0dcb438887f"
        ),
    ),
    KnownSum(
        25,
        bytes.fromhex("cddb290d23743b02da70bf262110a94540796d5469073507aa130d5edd334925"),
        bytes.fromhex(
            "8026d0bc7967f991bfd0a5ef63dc06034fefc193327d674a3d23031d3e1cdeb5139fb39b491a3a17349ba3d000725da2"
        ),
    ),
    KnownSum(
        25,
        bytes.fromhex("06885dc3fb7cda41441df74640817681cd962c96ff2d1cd200201b92d9d37435"),
        bytes.fromhex(
            "8a3fed8302b3db0e311352f946a46c252dca6c1a3d1f416eee63c587e4d81556a8e026bf9ab906c4aa377d0230059df0"
        ),
    ),
    KnownSum(
        246,
        bytes.fromhex("d51e5018a4a02e8c8a75d101850ed617e57bbc8b416b51b44d48fd29b84ae8f1"),
        bytes.fromhex(
            "90371ce418fdc334a94ea8933a92905bae67a88790b89ea4692de01a2f74d1f6fe4e89a892ab852f906ac5410298ac26"
        ),
    ),
    KnownSum(
        929,
        bytes.fromhex("6af795455f7ee5a5a49773dd173dcf54c30272a5c1bb4d699a6f3680b9825da6"),
        bytes.fromhex(
            "816c4eb73580feb19273ecebb788355a84cac94bd4275657e0f5a22ad7629434c2d908834cc82881166a2f4c4c661795"
        ),
    ),
)
