"""Tables: files and DataFrames become features and classes, and a model carries how.

:class:`TableEncoder` is the first step of the models that ``openset fit`` writes.
"""

from ._encoder import TableEncoder
from ._encoder import numbers as numbers
from ._files import Table, TableError, open_table
from ._files import check_writable as check_writable
from ._files import open_writer as open_writer
from ._rows import Choice as Choice
from ._rows import TableModel as TableModel
from ._rows import TrainingData as TrainingData
from ._rows import label_text as label_text
from ._rows import model_encoder as model_encoder
from ._rows import part_readers as part_readers
from ._rows import read_training as read_training
from ._rows import required_texts as required_texts

__all__ = ["Table", "TableEncoder", "TableError", "open_table"]
