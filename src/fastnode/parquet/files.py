"""Parquet files: written the same way each time, and read back in pieces.

Columns of hashes are not sorted and never repeat: they get no dictionary and no bounds.  Numbers are as small without a
dictionary once they are compressed, and done sooner.  A file of the same rows in
the same row groups is the same bytes, as long as the version of pyarrow is.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastnode.errors import ExportError
from fastnode.parquet.columns import arrow_schema
from fastnode.parquet.folder import naming
from fastnode.parquet.tables import BLOCK_NUMBER, Table

__all__ = ["RowReader", "TableFile", "plain"]

_COMPRESSION: Final = "zstd"
_COMPRESSION_LEVEL: Final = 1
#: Errors that pyarrow raises for a file that is damaged.
_DAMAGE: Final = (OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError, pa.ArrowException)
_WITH_BOUNDS: Final = frozenset({"int", "fee", "time", "name"})
_WITH_DICTIONARY: Final = frozenset({"fee", "time", "name"})


class TableFile:
    """One table's file of a partition, under its temporary name, until :meth:`close`."""

    def __init__(self, table: Table, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._schema = arrow_schema(table)
        with naming(path):
            self._file = _Counted(path)
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression=_COMPRESSION,
            compression_level=_COMPRESSION_LEVEL,
            use_dictionary=[column.name for column in table.columns if column.kind in _WITH_DICTIONARY] or False,
            write_statistics=[column.name for column in table.columns if column.kind in _WITH_BOUNDS],
            store_schema=False,
            write_page_checksum=True,
        )

    def write(self, rows: pa.Table) -> None:
        """One row group, none for no rows.  ExportError when the disk takes it not."""
        if rows.num_rows:
            with naming(self.path):
                self._writer.write_table(rows, row_group_size=rows.num_rows)
            self.rows += rows.num_rows

    def close(self) -> tuple[int, int, str]:
        """(rows, bytes, SHA-256) of the file; its content is on disk then."""
        with naming(self.path):
            self._writer.close()
            self._file.finish()
        return self.rows, self._file.size, self._file.digest

    def abandon(self) -> None:
        """Close it as it is, and remove it: a full disk needs its room."""
        self._file.is_abandoned = True
        try:
            self._writer.close()
        finally:
            self._file.abandon()
            self.path.unlink(missing_ok=True)


class _Counted:
    """A file as pyarrow writes it, with its length and its checksum."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._digest = sha256()
        self.size = 0
        self.is_abandoned = False
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        if not self.is_abandoned:
            self._file.write(view)
            self._digest.update(view)
        self.size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        pass

    def finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        try:
            self._file.close()
        except OSError:  # what is buffered has no room either; the second call only closes
            self._file.close()

    def close(self) -> None:
        self.closed = True

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def plain(rows: pa.Table) -> pa.Table:
    """Rows with every text as such, as they are read from a file."""
    fields = [
        pa.field(field.name, field.type.value_type, field.nullable) if pa.types.is_dictionary(field.type) else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


class RowReader:
    """Reads a table's file from its begin, by blocks.  ExportError for a file that is damaged or of another form."""

    def __init__(self, table: Table, path: Path) -> None:
        self._path = path
        self._schema = plain(arrow_schema(table).empty_table()).schema
        self._pending: list[pa.Table] = []
        self._next = 0
        try:
            self._file = pq.ParquetFile(path, page_checksum_verification=True)
            names = self._file.schema_arrow.names
        except _DAMAGE as error:
            raise self._unreadable(error) from error
        if names != self._schema.names:
            raise ExportError(f"{path} has other columns than it was written with")

    def take(self, block: int | None) -> pa.Table:
        """The next rows up to those of ``block``; None: all that are left."""
        while self._next < self._file.num_row_groups and (not self._pending or _ends_by(self._pending[-1], block)):
            self._pending.append(self._read())
        taken: list[pa.Table] = []
        while self._pending and _ends_by(self._pending[0], block):
            taken.append(self._pending.pop(0))
        if self._pending and self._pending[0].column(BLOCK_NUMBER)[0].as_py() <= block:
            rows = self._pending[0]
            count = pc.sum(pc.less_equal(rows.column(BLOCK_NUMBER), block)).as_py()
            self._pending[0] = rows.slice(count)
            taken.append(rows.slice(0, count))
        # Mostly that is one row group, as it was written.
        return taken[0] if len(taken) == 1 else pa.concat_tables([self._schema.empty_table(), *taken])

    def _read(self) -> pa.Table:
        try:
            rows = self._file.read_row_group(self._next).cast(self._schema)
            rows.validate(full=True)
            if rows.column(BLOCK_NUMBER).null_count or not rows.num_rows:
                raise ValueError("a row group lacks its blocks")
        except _DAMAGE as error:
            raise self._unreadable(error) from error
        self._next += 1
        return rows

    def _unreadable(self, error: Exception) -> ExportError:
        return ExportError(f"{self._path} cannot be read: {error}")

    def close(self) -> None:
        """May be called more than once."""
        self._file.close()


def _ends_by(rows: pa.Table, block: int | None) -> bool:
    return block is None or bool(rows.column(BLOCK_NUMBER)[-1].as_py() <= block)
