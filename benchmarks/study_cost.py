"""CPU seconds of one task of each method of a study, with the search, the fit, scores and records.

    python -m benchmarks.study_cost studies/paper.toml cifar10 3 --data-home FOLDER

Set OMP_NUM_THREADS=1. The code of a method is compiled or loaded before, on a small dataset.
"""

import argparse
import time
import warnings

import numpy as np

from openset.study import Task, load_study, run_task


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study")
    parser.add_argument("dataset")
    parser.add_argument("n_known", type=int)
    parser.add_argument("--run", type=int, default=0)
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--data-home")
    args = parser.parse_args()
    study = load_study(args.study)
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    X = rng.random((4, 100))[y] + 0.2 * rng.random((400, 100))
    for method in args.methods or study.methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            study.make_search(method).set_params(refit=True).fit(X, y).decision_function(X)
        start = time.process_time()
        task = Task(args.dataset, args.n_known, args.run, method)
        row = run_task(task, study, args.data_home, threads=1)
        seconds = time.process_time() - start
        print(f"{method:24} {seconds:7.1f} s, NA {row['NA']}, {row['error'] or ''}", flush=True)


if __name__ == "__main__":
    main()
