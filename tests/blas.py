"""Tests under each set of kernels that OpenBLAS has for this processor, one line per set.

OpenBLAS picks its kernels by the processor, and they round differently. ``OPENBLAS_CORETYPE``
makes it take others: ``python -m tests.blas --cores Haswell tests/solver``.
"""

import argparse
import os
import re
import subprocess
import sys
import time

CORES = "Haswell,Zen,Sandybridge,Nehalem,Prescott,SkylakeX,Cooperlake,Sapphirerapids"

# Multiplies in both precisions, so that instructions the processor lacks end the program here.
PROBE = """
import numpy as np
from threadpoolctl import threadpool_info
for dtype in (np.float32, np.float64):
    a = np.ones((300, 300), dtype)
    a @ a, a @ a[0], a[0] @ a[0]
print(*(i.get("architecture") for i in threadpool_info() if i["internal_api"] == "openblas"))
"""


def kernels(core: str | None) -> str | None:
    """Name of the kernels that numpy uses with this core type; None if it cannot."""
    command = [sys.executable, "-c", PROBE]
    found = subprocess.run(command, env=environment(core), capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def environment(core: str | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    return kept | ({"OPENBLAS_CORETYPE": core} if core else {})


def passes(core: str, name: str, arguments: list[str]) -> bool:
    """Run the tests, tell how many there were, and show the output of pytest if one failed."""
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    start = time.monotonic()
    done = subprocess.run(command, env=environment(core), capture_output=True, text=True)
    closing = (done.stdout.strip().splitlines() or [""])[-1]
    counts = {kind: int(n) for n, kind in re.findall(r"(\d+) (passed|failed|error)", closing)}
    n_bad = counts.get("failed", 0) + counts.get("error", 0)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
    outcome = f"{counts.get('passed', 0) + n_bad} tests, {n_bad} failures"
    if done.returncode and not n_bad:
        outcome = f"pytest exited with code {done.returncode}"
    print(f"{name}: {outcome}, {time.monotonic() - start:.0f} s", flush=True)
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", default=CORES, help="core types, comma-separated")
    options, arguments = parser.parse_known_args()
    if not kernels(None):
        print("numpy's BLAS here is not OpenBLAS, which alone lets one choose kernels: no tests")
        return
    seen: set[str] = set()
    failed = False
    for core in options.cores.split(","):
        found = kernels(core)
        if found is None:
            print(f"{core}: this processor cannot run it")
        elif found in seen:
            print(f"{core}: the kernels of {found} again")
        else:
            seen.add(found)
            name = core if core.lower() == found.lower() else f"{core} (kernels of {found})"
            failed |= not passes(core, name, arguments)
    sys.exit(failed)


if __name__ == "__main__":
    main()
