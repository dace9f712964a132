"""Layouts of the databases: where members of a record begin, lengths, letters of keys (layouts.pxd)."""

from typing import Final

HASH_BYTES: Final[int]
NUMBER_BYTES: Final[int]

# A block record (archiver/records.py); the header and the archive follow.
BLOCK_HASH: Final[int]
BLOCK_ARCHIVE_ROOT: Final[int]
BLOCK_CHECKPOINT_NUMBER: Final[int]
BLOCK_INDEX_WITHIN_CHECKPOINT: Final[int]
BLOCK_SLOT: Final[int]
BLOCK_TIMESTAMP: Final[int]
BLOCK_TX_COUNT: Final[int]
BLOCK_HEADER_LENGTH: Final[int]
BLOCK_HEAD_BYTES: Final[int]

# The record of a complete checkpoint (archiver/records.py); header, archive, L1's part and attestations follow.
CHECKPOINT_HEADER_HASH: Final[int]
CHECKPOINT_OUT_HASH: Final[int]
CHECKPOINT_START_BLOCK: Final[int]
CHECKPOINT_BLOCK_COUNT: Final[int]
CHECKPOINT_SLOT: Final[int]
CHECKPOINT_FEE_ASSET_PRICE_MODIFIER: Final[int]
CHECKPOINT_FRAGMENT_LENGTHS: Final[int]
CHECKPOINT_HEAD_BYTES: Final[int]

# A transaction record (archiver/records.py); the end of its receipt follows.
TX_BLOCK: Final[int]
TX_INDEX: Final[int]
TX_REVERT_CODE: Final[int]
TX_BLOCK_HASH: Final[int]
TX_HEAD_BYTES: Final[int]

# Keys of the chain database (archiver/layout.py): a letter, and a number, two numbers or a hash.
BLOCK_LETTER: Final[int]
EFFECT_LETTER: Final[int]
CHECKPOINT_LETTER: Final[int]
TX_LETTER: Final[int]
BY_HASH_LETTER: Final[int]
BY_ARCHIVE_LETTER: Final[int]
NUMBER_KEY_BYTES: Final[int]
EFFECT_KEY_BYTES: Final[int]
HASH_KEY_BYTES: Final[int]

# A leaf of an indexed tree (world_state/layout.py): its state, the value, and what never changes.
LEAF_CHANGED: Final[int]
LEAF_NEXT_INDEX: Final[int]
LEAF_NEXT_KEY: Final[int]
LEAF_VALUE: Final[int]
TAIL_INDEX: Final[int]
TAIL_INSERTED: Final[int]
TAIL_PREDECESSOR: Final[int]
TAIL_BYTES: Final[int]
INDEX_BYTES: Final[int]

# The place of a leaf of an append-only tree (world_state/layout.py).
PLACE_INDEX: Final[int]
PLACE_BLOCK: Final[int]
PLACE_BYTES: Final[int]

# Parts of records that blocks, checkpoints and transactions are answered with (archiver/forms.py).
PART_NOTHING: Final[int]
PART_HEADER: Final[int]
PART_ARCHIVE: Final[int]
PART_SENT_ARCHIVE: Final[int]
PART_BODY: Final[int]
PART_BLOCK_HASH: Final[int]
PART_BLOCK_NUMBER: Final[int]
PART_CHECKPOINT_NUMBER: Final[int]
PART_INDEX_WITHIN_CHECKPOINT: Final[int]
PART_L1: Final[int]
PART_ATTESTATIONS: Final[int]
PART_KNOWN_L1: Final[int]
PART_KNOWN_ATTESTATIONS: Final[int]
PART_TX_HASH: Final[int]
PART_TX_INDEX: Final[int]
PART_TX_STATUS: Final[int]
PART_EXECUTION_RESULT: Final[int]
PART_EFFECT: Final[int]
PART_STORED_RECEIPT: Final[int]
PART_BLOCKS: Final[int]
PART_OUT_HASH: Final[int]
PART_START_BLOCK: Final[int]
PART_BLOCK_COUNT: Final[int]
PART_FEE_ASSET_PRICE_MODIFIER: Final[int]
PART_LAST: Final[int]
