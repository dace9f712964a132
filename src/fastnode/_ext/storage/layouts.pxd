# Offsets, lengths and letters of database records that kernels read.  The modules that own the layouts draw them and take
# the numbers from here.  A debug build cannot compute in an enum: sums are written out.

cpdef enum:
    HASH_BYTES = 32
    NUMBER_BYTES = 4

    # A block record (archiver/records.py); the header and the archive follow.
    BLOCK_HASH = 0
    BLOCK_ARCHIVE_ROOT = 32
    BLOCK_CHECKPOINT_NUMBER = 64
    BLOCK_INDEX_WITHIN_CHECKPOINT = 68
    BLOCK_SLOT = 72
    BLOCK_TIMESTAMP = 76
    BLOCK_TX_COUNT = 84
    BLOCK_HEADER_LENGTH = 88
    BLOCK_HEAD_BYTES = 92

    # The record of a complete checkpoint (archiver/records.py); header, archive, L1's part and attestations follow.
    CHECKPOINT_HEADER_HASH = 0
    CHECKPOINT_OUT_HASH = 32
    CHECKPOINT_START_BLOCK = 64
    CHECKPOINT_BLOCK_COUNT = 68
    CHECKPOINT_SLOT = 72
    CHECKPOINT_FEE_ASSET_PRICE_MODIFIER = 76
    CHECKPOINT_FRAGMENT_LENGTHS = 108  # three numbers
    CHECKPOINT_HEAD_BYTES = 120

    # A transaction record (archiver/records.py); the end of its receipt follows.
    TX_BLOCK = 0
    TX_INDEX = 4
    TX_REVERT_CODE = 8
    TX_BLOCK_HASH = 9
    TX_HEAD_BYTES = 41

    # Keys of the chain database (archiver/layout.py): a letter, and a number, two numbers or a hash.
    BLOCK_LETTER = 98
    EFFECT_LETTER = 101
    CHECKPOINT_LETTER = 99
    TX_LETTER = 116
    BY_HASH_LETTER = 72
    BY_ARCHIVE_LETTER = 65
    NUMBER_KEY_BYTES = 5
    EFFECT_KEY_BYTES = 9
    HASH_KEY_BYTES = 33

    # A leaf of an indexed tree (world_state/layout.py): its state, the value, and what never changes.
    LEAF_CHANGED = 0
    LEAF_NEXT_INDEX = 4
    LEAF_NEXT_KEY = 10
    LEAF_VALUE = 42  # HASH_BYTES in the public data tree, nothing in the nullifier tree
    TAIL_INDEX = 0
    TAIL_INSERTED = 6
    TAIL_PREDECESSOR = 10
    TAIL_BYTES = 42
    INDEX_BYTES = 6

    # The place of a leaf of an append-only tree (world_state/layout.py).
    PLACE_INDEX = 0
    PLACE_BLOCK = 6
    PLACE_BYTES = 10

    # Parts of records that blocks, checkpoints and transactions are answered with: the segments of a form
    # (archiver/forms.py).
    PART_NOTHING = 0  # only the text before it
    PART_HEADER = 1
    PART_ARCHIVE = 2
    PART_SENT_ARCHIVE = 3  # empty for block 0
    PART_BODY = 4
    PART_BLOCK_HASH = 5
    PART_BLOCK_NUMBER = 6
    PART_CHECKPOINT_NUMBER = 7
    PART_INDEX_WITHIN_CHECKPOINT = 8
    PART_L1 = 9  # of the checkpoint: without it there is no record
    PART_ATTESTATIONS = 10
    PART_KNOWN_L1 = 11  # the same, as far as they are known
    PART_KNOWN_ATTESTATIONS = 12
    PART_TX_HASH = 13
    PART_TX_INDEX = 14
    PART_TX_STATUS = 15
    PART_EXECUTION_RESULT = 16
    PART_EFFECT = 17
    PART_STORED_RECEIPT = 18  # members that are stored with the transaction
    PART_BLOCKS = 19  # of a checkpoint, in a form of their own
    PART_OUT_HASH = 20
    PART_START_BLOCK = 21
    PART_BLOCK_COUNT = 22
    PART_FEE_ASSET_PRICE_MODIFIER = 23
    PART_LAST = 23
