"""CPU seconds of the default search for OpenSetSVC, one thread, on draws of the paper's protocol.

    python -m benchmarks.search_time DATA_HOME [--earlier]

`--earlier` is the default before ``search_rules.md``, with today's solver. To compare two versions
run it with each of them in turn, more than once.
"""

import argparse
import time
import warnings

import numpy as np

from openset import OpenSetSearchCV, OpenSetSVC

from .search_quality import go_back
from .search_table import draw

TASKS = [
    ("vowel", 6),
    ("yeast", 6),
    ("led7", 3),
    ("mfeat-factors", 3),
    ("mfeat-zernike", 6),
    ("optdigits", 3),
    ("letter", 3),
    ("letter", 6),
    ("letter", 10),
]
REPEATS = 3


def main():
    """Print the median of three times per task, and their sum."""
    parser = argparse.ArgumentParser()
    parser.add_argument("home")
    parser.add_argument("--earlier", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    total = 0.0
    for dataset, n in TASKS:
        X, y, *_ = draw(dataset, n, 0, args.home)
        if args.earlier:
            go_back(n)
        seconds = []  # the first may load compiled code
        for seed in range(REPEATS):
            begin = time.process_time()
            options = {"n_repeats": 5 if args.earlier else None, "random_state": seed}
            OpenSetSearchCV(OpenSetSVC(), refit=False, **options).fit(X, y)
            seconds.append(time.process_time() - begin)
        print(f"{dataset}, n = {n}, {len(y)} rows: {np.median(seconds):.2f} s", flush=True)
        total += np.median(seconds)
    print(f"sum: {total:.2f} s")


if __name__ == "__main__":
    main()
