"""Blocks, checkpoints and transactions as JSON, straight from records and effects as they are stored.

The readable form of everything here is ``fastnode/_twins/block_text.py``; records are drawn in archiver/records.py.
"""

from collections.abc import Callable, Container
from typing import Any, TypeAlias, final

#: Segments of a record: the text before a part, the part (PART_... of the layouts), and the option that asks for it,
#: None for one that is always there.  archiver/forms.py makes them.
Form: TypeAlias = tuple[tuple[bytes, int, str | None], ...]

#: The archive of block 0 in answers of the release set.
EMPTY_ARCHIVE: bytes

def header(record: bytes) -> bytes:
    """BlockHeader.  ValueError for what is no record."""

def block(form: Form, number: int, get: Callable[[bytes], bytes | None], options: Container[str] = ()) -> bytes | None:
    """A block in a form; ``get`` reads the chain database.  None where the form has the checkpoint, and that is not
    complete.

    ``options`` has the options that are true, by their names.
    ValueError for what is no record or form; LookupError if the record or an effect is not there.
    """

@final
class Blocks:
    """The blocks of one view up to ``tip``; ``get`` reads its snapshot.

    ``checkpointed``, ``proven`` and ``finalized`` are the last blocks of these tips, ``results`` what a receipt says of
    an execution, by revert code.  Forms with the body of a block from 1 to before ``oldest_body`` are BlockPruned, and
    so are effects in it.  Up to 1 MB of what was read last is kept: one block is asked for in several forms, by
    its number and by its hash, and a receipt until it says what its reader waits for.
    """

    def __init__(
        self,
        get: Callable[[bytes], bytes | None],
        tip: int,
        *,
        checkpointed: int = 0,
        proven: int = 0,
        finalized: int = 0,
        oldest_body: int = 1,
        results: tuple[bytes, ...] = (),
    ) -> None: ...
    @property
    def tip(self) -> int: ...
    def text(self, form: Form, number: int, options: Container[str] = ()) -> bytes | None:
        """The block with this number as :func:`block` has it, None if there is none; what is read is not kept."""

    def checkpoint(self, form: Form, block_form: Form, number: int, options: Container[str] = ()) -> bytes | None:
        """The complete checkpoint with this number in a form, with its blocks in theirs; None if there is none.

        Errors as of :func:`block`; what is read is not kept.
        """

    def number_by_hash(self, block_hash: bytes) -> int | None:
        """Number of the block with this header hash, None if there is none.  ValueError for what is no hash."""

    def number_by_archive(self, root: bytes) -> int | None:
        """Number of the block after which the archive tree has this root."""

    def number_of(self, field: bytes) -> int | None:
        """Number of the block with this header hash, or else with this root; no two of them are alike."""

@final
class BlockQuestion:
    """A method's ``read(view, block, options)``: a block of ``view.chain.blocks`` in a form, None if there is none.

    ``block`` is its number, its hash or archive root, or None for the newest; of anything else ``find(view.chain,
    block)`` gives the number, and the form is ``named_form`` if it has a true ``is_development_form``, or if there are
    ``options``, those that are true.

    ValueError for what is no form or record; LookupError if the record or an effect is not there.
    """

    def __init__(
        self,
        form: Form,
        find: Callable[..., int | None],
        *,
        named_form: Form | None = None,
    ) -> None: ...
    def __call__(self, view: Any, block: Any = None, options: Container[str] | None = None) -> bytes | None: ...

def mined(form: Form, tx_hash: bytes, blocks: Blocks) -> bytes | None:
    """A mined transaction in a form; None if no block has it.

    ValueError for what is no hash, form or record; LookupError if its effect is not there.
    """

@final
class TxQuestion:
    """A method's ``read(view, tx_hash)``: what :func:`mined` says of ``view.chain.blocks``; of a transaction that no
    block has, what ``otherwise`` says to the same, or None without one.

    ValueError for what is no form, hash or record; LookupError if the effect is not there.
    """

    def __init__(self, form: Form, otherwise: Callable[[Any, bytes], bytes | None] | None = None) -> None: ...
    def __call__(self, view: Any, tx_hash: bytes) -> bytes | None: ...
