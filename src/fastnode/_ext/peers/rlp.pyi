"""RLP, the encoding of node records and of messages of discovery."""

from typing import TypeAlias

#: Bytes, or a list of items.
Item: TypeAlias = bytes | list["Item"]

def decode(data: bytes, *, items_max: int, depth_max: int) -> Item:
    """The one item that ``data`` is.

    ValueError: it is no item, not in the shortest form, has something behind it, more than ``items_max`` items in all,
    or lists more than ``depth_max`` levels deep.
    """
