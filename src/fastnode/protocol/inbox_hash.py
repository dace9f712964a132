"""The rolling hash over all messages of an Inbox, from release 6.x on.

It starts at 0; each message makes the next one, h' = ``sha256_to_field`` of::

    plain       h | leaf
    separated   u32 3737216265 | h | leaf

The development of 6.x had both forms, so the form is a value of a release's record, and a node compares it with what
L1 says: each MessageSent event has the hash after its message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from fastnode.protocol.fields import ZERO_FIELD
from fastnode.protocol.hashing import sha256_to_field

__all__ = ["EMPTY_INBOX", "FORMS", "form_of", "inbox_form", "roll_each", "rolled_inbox"]

#: The rolling hash before the first message.
EMPTY_INBOX: Final = ZERO_FIELD
_SEPARATOR: Final = (3737216265).to_bytes(4, "big")

#: The next hash from the one before and the leaf of a message, by name of the form.
FORMS: Final[Mapping[str, Callable[[bytes, bytes], bytes]]] = {
    "plain": lambda before, leaf: sha256_to_field(before + leaf),
    "separated": lambda before, leaf: sha256_to_field(_SEPARATOR + before + leaf),
}


def inbox_form(name: str) -> str:
    """Return the name of a form; ValueError for an unknown one."""
    if name not in FORMS:
        raise ValueError(f"inbox.rollingHash: {name!r} is unknown, known are {', '.join(FORMS)}")
    return name


def roll_each(before: bytes, leaves: Sequence[bytes], form: str) -> Iterator[bytes]:
    """Yield the rolling hash (32 bytes) after each message; ``before``: the hash before the first of ``leaves``."""
    roll = FORMS[form]
    for leaf in leaves:
        before = roll(before, leaf)
        yield before


def rolled_inbox(before: bytes, leaves: Sequence[bytes], form: str) -> bytes:
    """Return the rolling hash after all of ``leaves``."""
    for after in roll_each(before, leaves, form):
        before = after
    return before


def form_of(before: bytes, leaf: bytes, after: bytes) -> str | None:
    """Return the name of the form in which ``leaf`` leads from one hash to the next; None if no known form does."""
    return next((name for name, roll in FORMS.items() if roll(before, leaf) == after), None)
