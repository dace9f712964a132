"""Reasons why a value from outside is refused, in words that are safe to print."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

__all__ = ["Reject", "describe", "nearest", "refuse_other_members"]

#: A value quoted in an error text is cut to this many characters.
QUOTED_LENGTH_MAX: Final = 60
#: No name that is known is longer; what it costs to compare another one grows with its length.
_COMPARED_LENGTH_MAX: Final = 100


class Reject(Exception):  # noqa: N818 - a verdict, not a fault
    """Reason of a refusal, to follow the parameter's name; ``path`` points into the value, such as ``.limit``.

    ``is_specific``: the reason says more than the description of the type, also to who reads a setting's error.
    """

    def __init__(self, reason: str, path: str = "", *, is_specific: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.is_specific = is_specific

    def under(self, path: str) -> Reject:
        """The same of a part of a value, where ``path`` leads to the part."""
        return Reject(self.reason, path + self.path)


def describe(value: object) -> str:
    """A refused value as it appears in an error text: short, printable, never a container's content."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if isinstance(value, str):
        text = value if len(value) <= QUOTED_LENGTH_MAX else value[:QUOTED_LENGTH_MAX] + "..."
        # Lone surrogates and control characters must not reach the answer or a terminal.
        return '"' + text.encode("unicode_escape").decode("ascii") + '"'
    return str(value)


def refuse_other_members(value: dict[str, Any], known: Collection[str], path: str = "") -> None:
    """Reject a member of the object at ``path`` that is not a ``known`` one: a misspelt one would be ignored."""
    for name in value:
        if name not in known:
            raise Reject(f"has no member {describe(name)}, only {', '.join(known)}{nearest(name, known)}", path)


def nearest(name: str, known: Iterable[str], likeness_min: float = 0.6) -> str:
    """Return a suggestion to follow an error's text: the known name that is most like ``name``; empty if none is.

    ``likeness_min``: from 0 to 1, as difflib counts it.  Upper and lower case are alike.
    """
    import difflib

    in_one_case = {each.lower(): each for each in sorted(known)}
    close = difflib.get_close_matches(name[:_COMPARED_LENGTH_MAX].lower(), in_one_case, n=1, cutoff=likeness_min)
    return f" (did you mean {in_one_case[close[0]]}?)" if close else ""
