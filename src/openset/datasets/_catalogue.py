"""The datasets of the paper: their figures, how to know them, and where they come from."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np


class Entry(NamedTuple):
    """What is known of a dataset.

    Attributes
    ----------
    shape : tuple of int
        Samples, features, classes, samples of the smallest and of the largest class, as the
        paper's table has them; for the 2-D sets, which it does not list, as their files.
    where : str
        Where to get it, in words.
    pmlb : str
        Name of the set in PMLB; empty where it is not there.
    sha256 : str
        :func:`content_sha256` of the data; empty where the paper's rows or features are not known.
    """

    shape: tuple[int, int, int, int, int]
    where: str
    pmlb: str = ""
    sha256: str = ""


def content_sha256(X: np.ndarray, y: np.ndarray) -> str:
    """SHA-256 of the values, in order; the same for every format a dataset is stored in.

    Six decimals count: programs differ in the last bit of the numbers they read from a text.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Integers.

    Returns
    -------
    str
    """
    digest = hashlib.sha256(repr(X.shape).encode())
    digest.update(np.rint(np.asarray(X, dtype=np.float64) * 1e6).astype("<i8").tobytes())
    digest.update(np.asarray(y).astype("<i8").tobytes())
    return digest.hexdigest()


_PMLB = "the package pmlb fetches it (pip install pmlb)"
_2D = "from Kuncheva's collection of artificial data; openset.datasets.{} makes such points"


def _pmlb(shape, sha256, name):
    return Entry(shape, _PMLB, name, sha256)


# In the order of the paper's table; the four sets of its figures at the end.
CATALOGUE = {
    "yeast": _pmlb(
        (1479, 8, 9, 20, 463),
        "361b7840fba5dc350201a88e9eb4006bc647c98ffb2af5d8fc2eb6ec7cb6cf73",
        "yeast",
    ),
    "mfeat-morphological": _pmlb(
        (2000, 6, 10, 200, 200),
        "a06768ae1391ca93695568fa87f6954b78d6e283b74e1e57dea93abb2dbbe487",
        "mfeat_morphological",
    ),
    "mfeat-zernike": _pmlb(
        (2000, 47, 10, 200, 200),
        "bec768c749ee6f27b3d29743c24ceba17737de534d10f61218d86cbb878926fa",
        "mfeat_zernike",
    ),
    "mfeat-karhunen": _pmlb(
        (2000, 64, 10, 200, 200),
        "2ec372adfa5e447cfcd5a0173b670c830cac61f9b9a460397fdc08b9eb5d1c74",
        "mfeat_karhunen",
    ),
    "mfeat-fourier": _pmlb(
        (2000, 76, 10, 200, 200),
        "20e6af03cd7c1ceaec64f7de41eeadc5dbff94e7b0c53df40f20d8cd0f16dba4",
        "mfeat_fourier",
    ),
    "mfeat-factors": _pmlb(
        (2000, 216, 10, 200, 200),
        "8496e6668fd49713d20da5a084a5d443f201606e0341f21f91774df6d48f63ae",
        "mfeat_factors",
    ),
    "led7": _pmlb(
        (3200, 7, 10, 270, 341),
        "565ca9ea59fa84a2915fbc23f9c8d4056ed9010ade73569b67d8aa71ac47f89c",
        "led7",
    ),
    "led24": _pmlb(
        (3200, 24, 10, 296, 337),
        "3944b5adf405c2861bdda4412e35b06c7185a2b42e2e12468f4bf24a8beea410",
        "led24",
    ),
    "optdigits": _pmlb(
        (5620, 64, 10, 554, 572),
        "f9c2d48985119e833c2b6f8e9a95c4219dc92e45d4a5c55348d9312a29fc90b3",
        "optdigits",
    ),
    "pendigits": _pmlb(
        (10992, 16, 10, 1055, 1144),
        "3a412ef44c49c9543b16cc188b621e688f70ab29b3e81e432aae5c06b9ed10f8",
        "pendigits",
    ),
    "cifar10": Entry(
        (50000, 192, 10, 5000, 5000),
        "the last hidden layer (192 units) of a convolutional network trained on the images, "
        "which are at www.cs.toronto.edu/~kriz/cifar.html",
    ),
    "mnist": Entry(
        (55000, 1024, 10, 4987, 6179),
        "the last hidden layer (1,024 units) of a convolutional network trained on the images, "
        "rows 5,000 to 59,999 of the training set",
    ),
    "vowel": _pmlb(
        (990, 13, 11, 90, 90),
        "3a90b8c7d43fda2b3d72eb8cb6a2b144f98ce6bf945486620d44dccf5161acdf",
        "vowel",
    ),
    "movement_libras": _pmlb(
        (360, 90, 15, 24, 24),
        "1f84ca42e0ccb95ad4105a15f36275d17ca275a67ef483b28af50ce05d572901",
        "movement_libras",
    ),
    "15-scenes": Entry(
        (4485, 1000, 15, 210, 410),
        "bags of 1,000 visual words (SIFT, soft assignment, max pooling) of the images of the "
        "fifteen scene categories of Lazebnik, Schmid and Ponce (2006)",
    ),
    "krkopt": _pmlb(
        (28056, 6, 18, 27, 4553),
        "3414a3af04b69e6028d9a9ec72720f902bec253f8f3b76925132854785417a07",
        "krkopt",
    ),
    "letter": _pmlb(
        (20000, 16, 26, 734, 813),
        "dc143692b9aebc899110b454e3959b370e1717730e6d1623056f9f68748593c5",
        "letter",
    ),
    "kddcup": Entry(
        (10237, 41, 32, 11, 500),
        "training and test set of the KDD Cup 1999 (kdd.ics.uci.edu) joined, classes of 10 "
        "samples and more, at most 500 samples of each",
    ),
    "auslan": Entry(
        (146949, 22, 95, 1390, 1938),
        "Australian Sign Language signs (High Quality) at archive.ics.uci.edu, every frame a "
        "sample",
    ),
    "caltech-256": Entry(
        (29780, 1000, 256, 80, 800),
        "bags of 1,000 visual words of the images of Caltech-256 (data.caltech.edu, doi "
        "10.22002/D1.20087); the paper's features are not public",
    ),
    "imagenet": Entry(
        (190780, 1024, 360, 520, 530),
        "features of a network, of 360 classes of ImageNet (image-net.org, on request); the "
        "paper's features are not public",
    ),
    "aloi": Entry(
        (108000, 128, 1000, 108, 108),
        "the set aloi of the LIBSVM collection, www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets",
    ),
    "boat": Entry(
        (100, 2, 3, 33, 34),
        _2D.format("make_boat"),
        "",
        "3326cd3018bb27bc53804549d9f39c39d215fb270b0d8d6363f6220d99377482",
    ),
    "cone-torus": Entry(
        (400, 2, 3, 92, 209),
        _2D.format("make_cone_torus"),
        "",
        "7d2a017d9663b407824e0dc0243101d4b041fa7590c45d771abb5a7450c12c04",
    ),
    "four-gauss": Entry(
        (100, 2, 4, 25, 25),
        _2D.format("make_four_gauss"),
        "",
        "d96720952a952b71136838569e8d31bd83b50f0bea1b6b685fce3e494e5d19ea",
    ),
    "regular": Entry(
        (144, 2, 16, 9, 9),
        _2D.format("make_regular"),
        "",
        "19a0c1255aacfc6f910fbd5757e0afb94b2f39ae5ab283dfa9a750cd671a278a",
    ),
}
