"""Structs of database records whose places are numbers of a layout."""

from __future__ import annotations

from struct import Struct, calcsize

__all__ = ["placed"]


def placed(*members: tuple[int, str], size: int) -> Struct:
    """The big-endian struct of members by place and form, such as ``(0, "32s"), (32, "I")``.

    ValueError when a member does not begin where the one before it ends, or the last one not end at ``size`` bytes.
    """
    at, form = 0, ">"
    for place, member in members:
        if place != at:
            raise ValueError(f"a member of form {member!r} at {place}, the one before it ends at {at}")
        form += member
        at = calcsize(form)
    if at != size:
        raise ValueError(f"a record of {at} bytes, its layout has {size}")
    return Struct(form)
