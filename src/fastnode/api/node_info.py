"""Members of ``node_getNodeInfo`` beside those of the chain's record.

They are made at each answer, so that a chain that was stored before there was such a member has it too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo

__all__ = ["MEMBERS", "Asked", "Member", "members_text", "node_info"]


class Asked(NamedTuple):
    """Source of the members."""

    chain: ChainInfo
    #: This node's record on the peer-to-peer network; None: there is none yet.
    record: str | None


class Member(NamedTuple):
    name: str
    #: Type in the language of ``record_schemas``.
    schema: str
    #: None: it is left out.
    value: Callable[[Asked], Any]


MEMBERS: Final[tuple[Member, ...]] = (Member("enr", "string", lambda asked: asked.record),)


def node_info(asked: Asked) -> dict[str, Any]:
    """The stored record, and what is made of it."""
    made = {member.name: member.value(asked) for member in MEMBERS}
    return asked.chain.node_info | {name: value for name, value in made.items() if value is not None}


def members_text() -> str:
    """Schema of the members, each of which may be missing."""
    return "".join(f"{member.name}?: {member.schema}, " for member in MEMBERS)
