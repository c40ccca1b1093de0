"""Tables: files and DataFrames become features and classes, and a model carries how.

:class:`TableEncoder` is the first step of the models that ``openset fit`` writes.
"""

from ._encoder import TableEncoder
from ._encoder import numbers as numbers
from ._files import Table, TableError, open_table
from ._model import TableModel as TableModel
from ._training import label_text as label_text
from ._training import part_readers as part_readers
from ._training import read_training as read_training
from ._training import required_texts as required_texts
from ._write import check_writable as check_writable
from ._write import open_writer as open_writer

__all__ = ["Table", "TableEncoder", "TableError", "open_table"]
