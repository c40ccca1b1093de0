"""Models as files that cannot run code.

A model file is a skops archive (a zip of arrays and a description of objects) with one more member,
the card: a version stamp and whatever the writer wants to record about the model. Loading builds
only objects of the registered estimators, of the types they declare in ``stored_types``, and of
those skops trusts by itself (scikit-learn's estimators, numpy's arrays). A file that asks for
anything else is refused before anything in it is built, and a model whose arrays do not fit
together is refused before it can answer.
"""

from ._files import FORMAT, ModelFileError, descent, load_model, read_card, read_model, save_model

__all__ = [
    "FORMAT",
    "ModelFileError",
    "descent",
    "load_model",
    "read_card",
    "read_model",
    "save_model",
]
