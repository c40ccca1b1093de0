"""Tables on disk, read and written in batches of rows; the format follows the file's suffix."""

from ._numbers import numbers
from ._open import open_table
from ._table import Table, TableError, heads, read_batches, require
from ._write import check_writable, open_writer

__all__ = [
    "Table",
    "TableError",
    "check_writable",
    "heads",
    "numbers",
    "open_table",
    "open_writer",
    "read_batches",
    "require",
]
