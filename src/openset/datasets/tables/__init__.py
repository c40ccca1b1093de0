"""Tables on disk, read and written in batches of rows; the format follows the file's suffix."""

from ._read import Table, TableError, numbers, open_table, read_batches, require
from ._write import check_writable, open_writer

__all__ = [
    "Table",
    "TableError",
    "check_writable",
    "numbers",
    "open_table",
    "open_writer",
    "read_batches",
    "require",
]
