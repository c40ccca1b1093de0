"""KDD Cup 99 as the example reads it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))

from _kdd99 import load

__all__ = ["load"]
