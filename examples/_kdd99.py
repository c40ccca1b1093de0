"""KDD Cup 99 for the example and the benchmarks: features, training and test set."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
# Counts and byte sizes span nine orders of magnitude.
_LOG = ["duration", "src_bytes", "dst_bytes", "count", "srv_count", "num_compromised", "num_root"]
_SYMBOLS = ["protocol_type", "service", "flag"]


def load(split):
    """Features and labels of ``split`` ("train" or "test"), scaled to [0, 1] by fixed rules.

    Logarithms of counts; one column per value of the three symbolic features.
    """
    home = Path(os.environ.get("OPENSET_DATA") or _BESIDE)
    frame = pd.read_parquet(home / f"kdd99-{split}.parquet")
    target = frame.pop("target").astype(str).to_numpy()
    symbols = pd.get_dummies(frame[_SYMBOLS], dtype=np.float64).to_numpy() * np.sqrt(0.5)
    numbers = frame.drop(columns=_SYMBOLS).astype(np.float64)
    largest = {"hot": 30, "dst_host_count": 255, "dst_host_srv_count": 255}
    for name in numbers:
        if name in _LOG:
            numbers[name] = np.log1p(numbers[name]) / 20
        elif name in largest:
            numbers[name] /= largest[name]
        else:
            numbers[name] = np.minimum(numbers[name], 1)
    return np.hstack([numbers.to_numpy(), symbols]), target
