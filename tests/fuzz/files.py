"""What the attacks on files share: data, damaged bytes, and the process that reads the files."""

from __future__ import annotations

import atexit
import hashlib
import os
import pickle
import select
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

X, Y = load_iris(return_X_y=True)
X, Y = X[::3], np.array(["setosa", "versicolor", "virginica"])[Y[::3]]

# Seconds after which a file that is still being read counts as a failure.
_PATIENCE = 60


def damage_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """The content cut short, or with flipped bits."""
    if rng.random() < 0.5:
        return content[: rng.integers(len(content))]
    damaged = bytearray(content)
    for position in rng.integers(len(content), size=rng.integers(1, 20)):
        damaged[position] ^= 1 << rng.integers(8)
    return bytes(damaged)


class Reader:
    """The process that loads the files."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        rng = np.random.default_rng(0)
        probes = np.concatenate([X, 8 * rng.normal(size=(100, X.shape[1])), 1e6 * X[:10]])
        np.save(Path(self._folder.name, "probes.npy"), probes)
        self._process = None
        atexit.register(self.close)

    def judge(self, content: bytes, name: str, probes: Any = None, intact: bool = False) -> str:
        """What becomes of a file with this content; begins with BAD if that is a failure.

        A model is asked `probes`, or the rows of every model of iris. An intact file is read before
        the damaged ones, so that these need not wait for what it imports.
        """
        path = Path(self._folder.name, name)
        asked = ""
        if probes is not None:
            data = pickle.dumps(probes)
            asked = Path(self._folder.name, f"{hashlib.sha256(data).hexdigest()}.pickle")
            if not asked.exists():
                asked.write_bytes(data)
        path.write_bytes(content)
        process = self._process or self._start()
        process.stdin.write(f"{path}\t{asked}\t{'intact' if intact else ''}\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], _PATIENCE)[0]:
            self.close()
            return f"BAD: no answer within {_PATIENCE} s"
        answer = process.stdout.readline()
        if not answer:
            self._process = None
            return f"BAD: the process ended with {process.wait()}"
        return answer.strip()

    def _start(self):
        command = [sys.executable, str(Path(__file__).with_name("reader.py"))]
        self._process = subprocess.Popen(
            [*command, str(Path(self._folder.name, "probes.npy"))],
            env=os.environ | {"MALLOC_PERTURB_": "165"},
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True},
        )
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError("the reader of files does not start")
        return self._process

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@cache
def reader() -> Reader:
    """The one process of this run."""
    return Reader()
