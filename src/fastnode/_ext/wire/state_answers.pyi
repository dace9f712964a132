"""Answers from the trees of one view, without the interpreter between the database and the text.

The readable form of everything here is ``fastnode/_twins/state_answers.py``.  What takes the history of a leaf or a
node, or a node that is not in memory, or a block whose record has not been read yet, is None here, and asked of
world_state/view.py; so is every error of a block that cannot be asked about.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, final

from fastnode._ext.trees.append_tree import AppendNodes
from fastnode._ext.trees.indexed_tree import IndexedNodes
from fastnode._ext.trees.leaf_cache import LeafCache

#: Kinds of questions.
STORAGE: int
PUBLIC_DATA_WITNESS: int
NULLIFIER_WITNESS: int
LOW_NULLIFIER_WITNESS: int
NOTE_HASH_WITNESS: int
MESSAGE_WITNESS: int
BLOCK_HASH_WITNESS: int

@final
class LeafSlots:
    """Tree slots of the storage slots that were asked for last: their hash takes longer than everything else.

    104 bytes for each of ``places``, a power of two; memory is taken when a place is used.  ``separator`` is the first
    field of what is hashed.
    """

    def __init__(self, places: int, separator: bytes) -> None: ...
    def find(self, contract: bytes, slot: bytes) -> bytes:
        """The key of a contract's storage slot in the public data tree.  ValueError for what is no field."""

    def knows(self, contract: bytes, slot: bytes) -> bool:
        """True if the key of a contract's slot is kept."""

    def learn(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """Keep the keys of contracts and slots that are about to be asked for, as many as 32 that are not known: where
        the processor has lanes, eight or sixteen are hashed in little more time than three one after the other."""

@final
class TreeAnswers:
    """Knowledge of all views about an indexed tree: its nodes in memory, the kept tiles and leaves, its id, how
    the keys of leaves and tiles begin."""

    def __init__(
        self, nodes: IndexedNodes, leaves: LeafCache, tree: int, leaf_prefix: bytes, tile_prefix: bytes
    ) -> None: ...

@final
class AppendAnswers:
    """Knowledge of all views about an append-only tree: its nodes in memory, its id, how the keys of the places of
    leaves, of tiles and of edges begin."""

    def __init__(
        self, nodes: AppendNodes, tree: int, place_prefix: bytes, tile_prefix: bytes, edge_prefix: bytes
    ) -> None: ...

@final
class StateAnswers:
    """Reads a snapshot; usable from any thread.  To be made after the snapshot, by the thread that applies blocks: it
    uses what is kept of the newest tiles and leaves until the next block changes some.

    ``records`` are the block records that the view has read, by number, and may grow.  Every method returns the
    text of a result; None for what it cannot say; ValueError for a key of another length, or for a damaged record.
    """

    #: Newest block that the shared memory may be asked about; an undo lowers it.
    memory_limit: int

    def __init__(
        self,
        *,
        nullifiers: TreeAnswers,
        public_data: TreeAnswers,
        note_hashes: AppendAnswers,
        messages: AppendAnswers,
        archive: AppendAnswers,
        slots: LeafSlots,
        get: Callable[[bytes], bytes | None],
        iterators: deque[Any],
        make_iterator: Callable[[], Any],
        records: Mapping[int, Any],
        oldest: int,
        memory_limit: int,
    ) -> None: ...
    @property
    def oldest(self) -> int: ...
    def low_nullifier_witness(self, nullifier: bytes, block: int) -> bytes | None:
        """NullifierMembershipWitness of the greatest nullifier not above this one."""

    def nullifier_witness(self, nullifier: bytes, block: int) -> bytes | None:
        """NullifierMembershipWitness of this nullifier; empty if it is not in the tree after ``block``."""

    def public_data_witness(self, leaf_slot: bytes, block: int) -> bytes | None:
        """PublicDataWitness of the greatest slot not above this one."""

    def note_hash_witness(self, note_hash: bytes, block: int) -> bytes | None:
        """MembershipWitness of the first such note hash; empty if it is not in the tree after ``block``."""

    def message_witness(self, message: bytes, block: int) -> bytes | None:
        """``["index","path"]`` of the first such L1 to L2 message; empty if it is not in the tree after ``block``."""

    def block_hash_witness(self, block_hash: bytes, block: int) -> bytes | None:
        """MembershipWitness of a block in the archive *before* ``block``; empty if it is not there."""

    def storage(self, contract: bytes, slot: bytes, block: int) -> bytes | None:
        """The value of a contract's storage slot, a JSON string; zero if it was never written."""

@final
class StateQuestion:
    """A method's ``read(view, block, *values)``: asks ``view.state.answers`` about the block with this number, or with
    this hash or archive root in ``view.chain.blocks``; about that whose number ``find(view, block)`` gives for anything
    else; and ``otherwise`` the same when that is None, when there is no number and when the view has no state.

    The values are contract and slot for STORAGE, a key for the other kinds.  ValueError for a kind that is none.
    """

    def __init__(
        self, kind: int, otherwise: Callable[..., bytes | None], *, find: Callable[..., int] | None = None
    ) -> None: ...
    def __call__(self, view: Any, block: Any, first: bytes, second: bytes | None = None) -> bytes | None: ...
    @property
    def prepare(self) -> Callable[[list[tuple[Any, ...]]], None] | None:
        """For STORAGE: to be called with the arguments of calls that follow, of one view, so that what they need is
        worked out side by side.  None for the other kinds."""
