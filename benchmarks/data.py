"""The data of the benchmarks, from the data home."""

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
from sklearn.preprocessing import MinMaxScaler, minmax_scale

from openset.datasets import load_dataset

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


class Absent(Exception):
    """The data of a job are not on this machine."""


@cache
def _load(name):
    home = os.environ.get("OPENSET_DATA") or _BESIDE
    try:
        return load_dataset(name, data_home=home)
    except (FileNotFoundError, ValueError, ImportError) as error:
        raise Absent(f"{name} cannot be read ({error})") from error


def letter(n_rows=20_000):
    """The first rows of letter, scaled to [0, 1]: (n_rows, 16), and their 26 classes."""
    bunch = _load("letter")
    return minmax_scale(bunch.data)[:n_rows], bunch.target[:n_rows]


def letter_sample(n_classes, n_rows):
    """Rows of the first classes of letter in a fixed random order."""
    X, y = letter()
    known = np.flatnonzero(y <= n_classes)
    rows = np.random.default_rng(0).permutation(known)[:n_rows]
    return X[rows], y[rows]


def letter_repeated(n_rows):
    """Letter repeated as often as needed, every row moved by noise a tenth of a grid step wide."""
    X, y = letter()
    rows = np.arange(n_rows) % len(y)
    noise = np.random.default_rng(0).normal(scale=0.1 / 15, size=(n_rows, X.shape[1]))
    return X[rows] + noise, y[rows]


class OpenSetRun(NamedTuple):
    """Training and test set of one run; test labels that are not in training are unknown."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def open_set_run(name, n_known, run):
    """One run of the paper's protocol: classes are drawn, half of their samples are for training.

    The other half and all samples of all other classes are for testing. Features are scaled to
    [0, 1] by the training set.
    """
    bunch = _load(name)
    X, y = bunch.data, bunch.target
    rng = np.random.default_rng([crc32(name.encode()), n_known, run])
    known = rng.permutation(np.unique(y))[:n_known]
    halves = [rng.permutation(np.flatnonzero(y == c))[: np.sum(y == c) // 2] for c in known]
    train = np.concatenate(halves)
    test = np.setdiff1d(np.arange(len(y)), train)
    scaler = MinMaxScaler().fit(X[train])
    return OpenSetRun(scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test])


def clinc(n_classes=150):
    """The training split of the first classes of CLINC150: (100 n_classes, 384)."""
    bunch = _load("clinc150-minilm")
    classes = np.unique(bunch.target[bunch.split == "train"])[:n_classes]
    rows = (bunch.split == "train") & np.isin(bunch.target, classes)
    return bunch.data[rows], bunch.target[rows]


def aloi_half(n_classes=1000):
    """Half of the rows of the first classes of ALOI, scaled to [0, 1]: (54 n_classes, 128)."""
    bunch = _load("aloi")
    rng = np.random.default_rng(0)
    classes = np.unique(bunch.target)[:n_classes]
    halves = [rng.permutation(np.flatnonzero(bunch.target == c))[:54] for c in classes]
    rows = np.concatenate(halves)
    return minmax_scale(bunch.data[rows]), bunch.target[rows]


def aloi_many(n_rows=1_000_000, n_classes=1000):
    """Half of ALOI repeated with small noise for training, the other half, clean, for testing.

    Integer features 0 to 9 are scaled to [0, 1]; the noise is a tenth of a step. `n_rows` of 54 per
    class, or fewer, are the clean training rows themselves.
    """
    bunch = _load("aloi")
    X, y = bunch.data / 9, bunch.target
    rng = np.random.default_rng(0)
    classes = np.unique(y)[:n_classes]
    order = [rng.permutation(np.flatnonzero(y == c)) for c in classes]
    train = np.concatenate([own[:54] for own in order])
    test = np.concatenate([own[54:] for own in order])
    rows = train[np.arange(n_rows) % len(train)]
    X_train = X[rows]
    if n_rows > len(train):
        for part in np.array_split(X_train, 20):
            part += rng.normal(scale=0.1 / 9, size=part.shape)
    return OpenSetRun(X_train, y[rows], X[test], y[test])


def mnist(n_rows=60_000):
    """The first training images of MNIST, scaled to [0, 1]: (n_rows, 784)."""
    bunch = _load.__wrapped__("mnist")  # too large to be kept next to what is made of it
    return bunch.data[:n_rows] / 255, bunch.target[:n_rows].copy()


def clusters(n_rows, n_features, n_classes):
    """Overlapping normal clusters with features of about unit variance; gamma = 1 / d fits them."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    centers = rng.normal(size=(n_classes, n_features)) * 0.5
    return centers[y] + rng.normal(size=(n_rows, n_features)), y
