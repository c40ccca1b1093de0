"""What the first fit on a machine costs, and that it is paid once."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from openset import OpenSetSVC
X = np.random.default_rng(0).normal(size=(60, 4))
y = np.arange(60) % 3
OpenSetSVC(n_jobs=2).fit(X, y).predict(X)
ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "openset"]
functions = {f for m in ours for f in vars(m).values() if isinstance(f, Dispatcher)}
hits = sum(sum(f.stats.cache_hits.values()) for f in functions)
misses = sum(sum(f.stats.cache_misses.values()) for f in functions)
print(json.dumps([hits, misses]))
"""


def _first_fit(cache):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
    )
    assert result.returncode == 0, result.stderr
    return *json.loads(result.stdout), result.stderr


@pytest.mark.slow
def test_first_fit_compiles_once(tmp_path):
    loaded, compiled, told = _first_fit(tmp_path)
    assert loaded == 0
    assert 0 < compiled <= 65  # each costs time: they were 150, and are 54
    assert told.count("compiling the solver") == 1
    loaded, compiled, told = _first_fit(tmp_path)
    assert loaded > 0 and compiled == 0
    assert not told
