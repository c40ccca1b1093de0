"""Tables on disk: opened by the ending of their name, read and written in batches of rows."""

from ._columns import numbers, require
from ._open import Table, TableError, open_table, read_batches
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
