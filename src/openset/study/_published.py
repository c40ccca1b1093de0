"""The paper's published results, under the true names of the measures and our names of methods.

In the published files the names of the two F-measures are exchanged: what they call OSFM counts
"unknown" as a class, what they call FM counts the known classes only. Here they are exchanged back.
"""

from __future__ import annotations

import os
from pathlib import Path

# our class -> name in the published files
METHODS = {
    "OpenSetSVC": "ssvm",
    "OneVsRestSVC": "svm",
    "MulticlassOneClassSVM": "ocsvm",
    "MulticlassSVDD": "svdd",
    "DecisionBoundaryCarving": "svmdbc",
    "OneVsSetMachine": "onevset",
    "WSVM": "wsvm",
    "PISVM": "pisvm",
    "ExtremeValueMachine": "evm",
}

# true name of a measure -> name in the published files
MEASURES = {
    "NA": "NA",
    "HNA": "HNA",
    "OSFMmacro": "FMmacro",
    "OSFMmicro": "FMmicro",
    "FMmacro": "OSFMmacro",
    "FMmicro": "OSFMmicro",
    "AKS": "AKS",
    "AUS": "AUS",
}

# our name of a dataset -> (name in the published files, percentage of negative biases in the
# paper's table: one-vs-all, one-vs-one). The paper's MNIST is features of a network, not pixels.
DATASETS = {
    "yeast": ("YEAST", 93.33, 26.40),
    "mfeat-morphological": ("MFEAT", 98.33, 39.66),
    "mfeat-zernike": ("ZERNIKE", 98.33, 47.11),
    "mfeat-karhunen": ("KARHUNEN", 98.89, 62.13),
    "mfeat-fourier": ("FOURIER", 97.78, 57.70),
    "mfeat-factors": ("FACTORS", 99.44, 41.82),
    "led7": ("LED7", 100.0, 57.36),
    "led24": ("LED24", 100.0, 50.00),
    "optdigits": ("OPTDIGITS", 99.44, 69.25),
    "pendigits": ("PENDIGITS", 96.11, 64.25),
    "cifar10": ("CIFAR10", 100.0, 38.70),
    "mnist-cnn": ("MNIST", 99.44, 43.52),
    "vowel": ("VOWEL", 98.33, 67.10),
    "movement_libras": ("MOVEMENT", 100.0, 49.96),
    "15-scenes": ("15SCENES", 99.00, 56.92),
    "krkopt": ("KRKOPT", 95.67, 40.25),
    "letter": ("LETTER", 99.67, 55.75),
    "kddcup": ("KDDCUP", 99.33, 49.79),
    "auslan": ("AUSLAN", 99.00, 42.50),
    "caltech-256": ("CALTECH256", 98.00, 48.75),
    "imagenet": ("IMAGENET", 99.33, 45.08),
    "aloi": ("ALOI", 97.67, 52.50),
}

_FILE = "paper_raw_results.parquet"
_SEARCHES = {"open": "O", "closed": "C"}


def read_published(folder: str | os.PathLike, search: str = "open"):
    """Read the published raw results.

    Parameters
    ----------
    folder : path-like
        Folder that holds ``paper_raw_results.parquet``.
    search : {"open", "closed"}, default="open"
        The grid search by which parameters were chosen; the paper's tables use the open-set one.

    Returns
    -------
    DataFrame
        Columns ``dataset, n_known, run, method`` and the eight measures under their true names;
        one row for each of the 22 datasets, its numbers of known classes, 10 runs and 9 methods.
    """
    import pandas

    if search not in _SEARCHES:
        raise ValueError(f"search={search!r} must be 'open' or 'closed'.")
    path = Path(folder) / _FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"published={str(folder)!r} holds no {_FILE}; give the folder of the published results."
        )
    raw = pandas.read_parquet(path)
    raw = raw[raw["classifier"].astype(str).str.endswith(_SEARCHES[search])]
    ours = {published + _SEARCHES[search]: name for name, published in METHODS.items()}
    return (
        raw.assign(
            dataset=raw["dataset"].astype(str).map({DATASETS[n][0]: n for n in DATASETS}),
            n_known=raw["lenacs"].astype(int),
            run=raw["experiment"].astype(int),
            method=raw["classifier"].astype(str).map(ours),
            measure=raw["measure"].astype(str).map({old: true for true, old in MEASURES.items()}),
        )
        .pivot(index=["dataset", "n_known", "run", "method"], columns="measure", values="result")
        .reset_index()
        .rename_axis(columns=None)[["dataset", "n_known", "run", "method", *MEASURES]]
    )
