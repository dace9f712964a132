"""Numbers of the protocol, release 4.x: limits, tree heights, domain separators, markers, addresses."""

from __future__ import annotations

from typing import Final

# ---- trees ------------------------------------------------------------------------------------

NULLIFIER_TREE_ID: Final = 0
NOTE_HASH_TREE_ID: Final = 1
PUBLIC_DATA_TREE_ID: Final = 2
L1_TO_L2_MESSAGE_TREE_ID: Final = 3
ARCHIVE_TREE_ID: Final = 4

OUT_HASH_TREE_HEIGHT: Final = 5
PRIVATE_FUNCTION_TREE_HEIGHT: Final = 7

#: Leaves of the nullifier and of the public data tree at genesis.
GENESIS_INDEXED_LEAVES: Final = 128

# ---- limits -----------------------------------------------------------------------------------

#: The greatest whole number that every reader of JSON holds exactly.
JSON_INTEGER_MAX: Final = (1 << 53) - 1

NOTE_HASHES_PER_TX_MAX: Final = 64
NULLIFIERS_PER_TX_MAX: Final = 64
L2_TO_L1_MESSAGES_PER_TX_MAX: Final = 8
PUBLIC_DATA_WRITES_PER_TX_MAX: Final = 64
PRIVATE_LOGS_PER_TX_MAX: Final = 64
CONTRACT_CLASS_LOGS_PER_TX_MAX: Final = 1

PRIVATE_LOG_FIELDS: Final = 16
#: All public logs of a tx, flat: each log takes its fields and a header of two.
PUBLIC_LOGS_FLAT_FIELDS_MAX: Final = 4096
PUBLIC_LOG_HEADER_FIELDS: Final = 2
PUBLIC_LOG_FIELDS_MAX: Final = PUBLIC_LOGS_FLAT_FIELDS_MAX - PUBLIC_LOG_HEADER_FIELDS
CONTRACT_CLASS_LOG_FIELDS: Final = 3023

L1_TO_L2_MESSAGES_PER_CHECKPOINT: Final = 1024
#: From release 6.x on, where each block appends its own.
L1_TO_L2_MESSAGES_PER_BLOCK_MAX: Final = 256
BLOCKS_PER_CHECKPOINT_MAX: Final = 72
CHECKPOINTS_PER_EPOCH_MAX: Final = 32
COMMITTEE_MEMBERS_MAX: Final = 2048

PUBLIC_BYTECODE_FIELDS_MAX: Final = 3000
#: Bytes of bytecode carried by one field: 31, so that any value stays below the modulus.
BYTECODE_BYTES_PER_FIELD: Final = 31

FIELDS_PER_BLOB: Final = 4096
BLOBS_PER_CHECKPOINT_MAX: Final = 6

#: Highest revert code: 0 ok, 1 app logic, 2 teardown, 3 both.
REVERT_CODE_MAX: Final = 3

# ---- domain separators --------------------------------------------------------------------------

SEPARATOR_NOTE_HASH_NONCE: Final = 1721808740
SEPARATOR_UNIQUE_NOTE_HASH: Final = 226850429
SEPARATOR_SILOED_NOTE_HASH: Final = 3361878420
SEPARATOR_SILOED_NULLIFIER: Final = 57496191
SEPARATOR_PRIVATE_LOG_FIRST_FIELD: Final = 2769976252
SEPARATOR_PUBLIC_LEAF_SLOT: Final = 1247650290
SEPARATOR_PUBLIC_STORAGE_MAP_SLOT: Final = 4015149901
SEPARATOR_PRIVATE_FUNCTION_LEAF: Final = 1389398688
SEPARATOR_PUBLIC_BYTECODE: Final = 260313585
SEPARATOR_CONTRACT_CLASS_ID: Final = 3923495515
SEPARATOR_PUBLIC_KEYS_HASH: Final = 777457226
SEPARATOR_PARTIAL_ADDRESS: Final = 2103633018
SEPARATOR_CONTRACT_ADDRESS_V1: Final = 1788365517
SEPARATOR_CONTRACT_ADDRESS_V2: Final = 4099338721
SEPARATOR_SALTED_INITIALIZATION_HASH: Final = 2763052992
SEPARATOR_SINGLE_PUBLIC_KEY_HASH: Final = 3452068255
SEPARATOR_BLOCK_HEADER_HASH: Final = 4195546849
SEPARATOR_PROTOCOL_CONTRACTS: Final = 3904434327
SEPARATOR_SECRET_HASH: Final = 4199652938

# ---- blob markers -------------------------------------------------------------------------------

TX_START_PREFIX: Final = 2624615704
BLOCK_END_PREFIX: Final = 3951939007
CHECKPOINT_END_PREFIX: Final = 2355328067

# ---- protocol contracts and their events ----------------------------------------------------------

#: Address of the only one of them that has the same in every release.
CONTRACT_INSTANCE_REGISTRY_ADDRESS: Final = 2
PROTOCOL_CONTRACTS_MAX: Final = 11

#: Storage slot of the balances map in the fee juice contract.
FEE_JUICE_BALANCES_SLOT: Final = 1

CONTRACT_CLASS_PUBLISHED_MAGIC: Final = 14907836659448373306373608164128296596488873008270905914742877230397948162628
CONTRACT_INSTANCE_PUBLISHED_MAGIC: Final = 10538216027419913765597387738085647348651103543680388181336823392401502757423
CONTRACT_INSTANCE_UPDATED_MAGIC: Final = 20721543224513346060908370400407150739273836456436647488068002302723900469047
