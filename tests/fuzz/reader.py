"""Reads the files named on standard input and tells what became of each, one line per file.

Each file is read in a process of its own, forked from this one, since a file that makes compiled
code read out of bounds may end it. With MALLOC_PERTURB_ set, fresh memory has a known pattern,
which no score may show. Reading a file may take 1 GiB, or 100 times its size, of memory.
"""

import contextlib
import os
import pickle
import resource
import sys
import time
import warnings

import numpy as np

# Seconds after which a file that is still being read counts as a failure.
_PATIENCE = 40


def _table(path):
    from openset.tables import TableError, numbers, open_table

    try:
        table = open_table(path)
        for batch in table.batches():
            for column in batch.columns:
                values, _ = numbers(column)
                if len(values) != batch.num_rows:
                    return f"BAD: {len(values)} numbers in {batch.num_rows} rows"
    except TableError as error:
        return "refused" if path in str(error) else f"BAD: the message names no file: {error}"
    except Exception as error:
        return f"BAD: {type(error).__name__}: {error}".replace("\n", " ")
    return "harmless"


def _model(path, X):
    from openset.persistence import ModelFileError, load_model

    try:
        model = load_model(path)
    except ModelFileError:
        return "refused"
    try:
        scores = [model.decision_function(X) for _ in range(2)]
        answers = model.predict(X)
    except Exception as error:
        return f"raises {type(error).__name__}"
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    shape = (n, len(model.classes_))
    if scores[0].shape != shape or answers.shape != shape[:1]:
        return f"BAD: scores of shape {scores[0].shape}, not {shape}"
    if not np.isfinite(scores[0]).all():
        return "BAD: scores are not finite"
    if scores[0].tobytes() != scores[1].tobytes():
        return "BAD: two calls give different scores"
    byte = int(os.environ.get("MALLOC_PERTURB_", "165"))
    patterns = [np.frombuffer(bytes([b]) * 8)[0] for b in (byte, byte ^ 255)]
    if np.isin(scores[0], patterns).any():
        return "BAD: scores are fresh memory"
    return "harmless"


def _monitor(path):
    from openset.monitoring import MonitorFileError, UnknownRateMonitor

    try:
        monitor = UnknownRateMonitor.load(path)
    except MonitorFileError:
        return "refused"
    rng = np.random.default_rng(0)
    for _ in range(3):
        monitor.update(rng.normal(size=50) + 2)
        if not np.isfinite(monitor.log_evidence):
            return f"BAD: the evidence is {monitor.log_evidence}"
    if monitor.log_evidence >= monitor.log_threshold and not monitor.alarm:
        return "BAD: no alarm above the threshold"
    monitor.save(path)
    same = UnknownRateMonitor.load(path)  # a state that was accepted can be written and read
    if str(same) != str(monitor):
        return "BAD: another state after saving"
    if monitor.test == "rate" and monitor.rate0 < 0.5 and not monitor.update(-np.ones(5000)):
        return "BAD: no alarm after 5000 unknown answers"
    return "harmless"


def _imported(store, parts):
    from openset.study import Store, StoreError

    for end, content in parts.items():
        path = store + end
        with open(path, "wb") as file:
            file.write(content)
        try:
            with Store(store, create=True) as results:
                if results.import_csv(path) < len(results.rows()):
                    return "BAD: more rows than the file has"
        except (ValueError, StoreError) as error:
            if store not in str(error):
                return f"BAD: the message names no file: {error}"
            return "refused"
    return "harmless"


def _store(path, rows):
    from openset.study import Store, StoreError

    with open(path, "rb") as file:
        parts = pickle.load(file)  # written by the process that asks
    store = f"{path}.sqlite"
    for end in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(store + end)
        if end in parts:
            with open(store + end, "wb") as file:
                file.write(parts[end])
    if not parts.keys() & {"", "-wal", "-shm"}:
        return _imported(store, parts)
    known = {repr(row) for row in rows}
    new = {"dataset": "iris", "n_known": 2, "run": 0, "method": "OSNN", "status": "done"}
    refused = 0
    for create in (False, True):
        try:
            with Store(store, create=create) as results:
                found = [repr(row) for row in results.rows()]
                if not known.issuperset(found) or len(set(found)) < len(found):
                    return "BAD: a row that was not written, or one twice"
                if create:
                    results.put(new)
                    if len(results.rows()) != len(found) + 1:
                        return "BAD: the new row is not the only one more"
        except StoreError as error:
            if store not in str(error):
                return f"BAD: the message names no file: {error}"
            refused += 1
    return "refused" if refused else "harmless"


def _study(path):
    from itertools import islice

    from openset.study import load_study

    try:
        study = load_study(path)
    except ValueError as error:
        return "refused" if path in str(error) else f"BAD: the message names no file: {error}"
    for method in study.methods:
        study.fingerprint(method)
    list(islice(study.tasks(dict.fromkeys(study.datasets, 10)), 1000))
    return "harmless"


def _judge(path, probes):
    suffix = os.path.splitext(path)[1]
    try:
        if suffix == ".store":
            return _store(path, probes)
        if suffix == ".toml":
            return _study(path)
        if suffix == ".skops":
            return _model(path, probes)
        return _monitor(path) if suffix == ".monitor" else _table(path)
    except Exception as error:
        return f"BAD: {type(error).__name__}: {error}".replace("\n", " ")


def _forked(path, probes):
    """The verdict of a child process on one file."""
    limit = max(2**30, 100 * os.path.getsize(path))
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            status = dict(line.split(":", 1) for line in open("/proc/self/status"))
            size, rss = (1024 * int(status[key].split()[0]) for key in ("VmSize", "VmRSS"))
            # Twice as much as is allowed: then the peak, not an error, shows what was needed.
            resource.setrlimit(resource.RLIMIT_AS, (size + 2 * limit, size + 2 * limit))
            verdict = _judge(path, probes)
            peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss
            if peak > limit:
                verdict = f"BAD: a peak of {peak / 2**20:.0f} MiB; {verdict}"
            os.write(writing, verdict[:4000].encode())
        finally:
            os._exit(0)
    os.close(writing)
    end = time.monotonic() + _PATIENCE
    while not (done := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.001)
    if not done[0]:
        os.kill(pid, 9)
        done = os.waitpid(pid, 0)
    verdict = os.read(reading, 5000).decode()
    os.close(reading)
    if os.WIFSIGNALED(done[1]):
        return f"BAD: signal {os.WTERMSIG(done[1])}"
    return verdict or "BAD: no verdict"


def main():
    warnings.simplefilter("ignore")
    rows = {"": np.load(sys.argv[1])}
    print("ready", flush=True)
    for line in sys.stdin:
        path, probes, intact = line.rstrip("\n").split("\t")
        if probes not in rows:
            with open(probes, "rb") as file:
                rows[probes] = pickle.load(file)  # written by the process that asks
        with np.errstate(all="ignore"):
            # An intact file is read here: what it imports and compiles is there for all others.
            print((_judge if intact else _forked)(path, rows[probes]), flush=True)


if __name__ == "__main__":
    main()
