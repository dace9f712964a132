"""Witnesses as JSON, straight from a leaf record and a sibling path.

The readable form of everything here is ``fastnode/_twins/witness_text.py``; records are drawn in world_state/layout.py.
"""

def leaf_place(record: bytes) -> tuple[int, int, int]:
    """Of a leaf record: its index, the block that inserted it, and the block that changed it last.

    ValueError for a length that no record has.
    """

def indexed(key: bytes, record: bytes, path: bytes) -> bytes:
    """NullifierMembershipWitness, or PublicDataWitness if the record has a value, of the leaf's newest state.

    ``path`` has up to 64 nodes of 32 bytes, lowest first.  ValueError for lengths that do not fit.
    """

def membership(index: int, path: bytes) -> bytes:
    """MembershipWitness: one JSON string.  ValueError for a path that is no whole number of nodes, or of too many."""
