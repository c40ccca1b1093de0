"""KDD Cup 99 as the example reads it."""

import os
import sys
from pathlib import Path

from .data import _BESIDE

os.environ.setdefault("OPENSET_DATA", str(_BESIDE))
sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))

from kdd99_attacks import ALPHA, SETTING, first_rows, load, sample, split

__all__ = ["ALPHA", "SETTING", "first_rows", "load", "sample", "split"]
