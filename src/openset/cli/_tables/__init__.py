"""Tables on disk, read and written in batches of rows; the format follows the file's suffix."""

from ._read import Table, TableError, numbers, open_table, read_batches, require
from ._training import TrainingData, label_text, read_training
from ._write import check_writable, open_writer

__all__ = [
    "Table",
    "TableError",
    "TrainingData",
    "check_writable",
    "label_text",
    "numbers",
    "open_table",
    "open_writer",
    "read_batches",
    "read_training",
    "require",
]
