"""Every checksum of a LevelDB table.  The readable form, with the layout, is ``fastnode/_twins/leveldb_table.py``."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

def crc32c(data: Buffer) -> int:
    """CRC-32C (Castagnoli), with the processor's instruction where there is one."""

def crc32c_portable(data: Buffer) -> int:
    """The same from tables."""

def fault_of(table: Buffer) -> str | None:
    """The first fault in the content of a table file, and at which byte; None if every block is as it was written.

    Lets go of the interpreter meanwhile; takes a few milliseconds for 32 MiB.
    """
