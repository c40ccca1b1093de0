"""Write cold_start.md: first calls of a wheel with compiled functions in a new environment.

    make wheel
    python -m benchmarks.cold_start dist/openset-*.whl [--numba VERSION] [--only CASE ...]

Each call is a process with an empty home folder and no cache, in a new environment whose
site-packages are read-only. What is counted are compilations that Numba announces meanwhile.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
_BEGIN = """
import sys, time
wall, cpu = time.perf_counter(), time.process_time()
import numba
from numba.core import event
class Count(event.Listener):
    n = 0
    def on_start(self, event): self.n += 1
    def on_end(self, event): pass
count = Count()
event.register("numba:compile", count)
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
"""
_END = """
import json, zlib
import numpy as np
answer = zlib.crc32(np.ascontiguousarray(answer).tobytes())
sys.stderr.write("RESULT" + json.dumps({
    "seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu,
    "functions": count.n, "answer": answer, "numba": numba.__version__}))
"""
CALLS = {
    "digits fit": "from openset import OpenSetSVC\nanswer = OpenSetSVC().fit(X, y).predict(X)\n",
    "search": (
        "from openset import OpenSetSVC, OpenSetSearchCV\n"
        "answer = OpenSetSearchCV(OpenSetSVC(), random_state=0).fit(X[::4], y[::4]).predict(X)\n"
    ),
    "openset predict": (
        "import contextlib, io\nfrom openset.cli import main\n"
        "sys.argv = ['openset', 'predict', 'model.osm', 'rows.csv', '--output', 'out.csv']\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main()\n"
        "answer = np.frombuffer(open('out.csv', 'rb').read(), np.uint8)\n"
    ),
}
_MODEL = (
    "import numpy as np\nfrom openset import OpenSetSVC\n"
    "from openset.persistence import save_model\n"
    "from sklearn.datasets import load_digits\nX, y = load_digits(return_X_y=True)\n"
    "save_model(OpenSetSVC().fit(X, y), 'model.osm')\n"
    "np.savetxt('rows.csv', X[:200], delimiter=',', comments='',\n"
    "           header=','.join(f'p{i}' for i in range(64)))\n"
)


def _python(environment):
    return environment / "bin" / "python"


def _install(folder, wheel, numba):
    """The site-packages of a new environment with the wheel, and perhaps another Numba."""
    if made := list(folder.glob("lib/python*/site-packages/openset")):
        return made[0].parent
    venv.create(folder, with_pip=True)
    pinned = [f"numba=={numba}"] if numba else []
    pip = [_python(folder), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"{wheel}[cli]", *pinned], check=True)
    return next(folder.glob("lib/python*/site-packages"))


def _measure(environment, call, scratch, repeats, **variables):
    """Medians of processes with an empty home, what they answered, and what they warned of."""
    code, found = _BEGIN + "import numpy as np\n" + CALLS[call] + _END, []
    for _ in range(repeats):
        with TemporaryDirectory(dir=scratch) as home:
            clean = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "PYTHON"))}
            clean |= {"HOME": home, "XDG_CACHE_HOME": home, "OMP_NUM_THREADS": "1", **variables}
            command = [_python(environment), "-c", code]
            done = subprocess.run(command, env=clean, cwd=scratch, capture_output=True, text=True)
        said, _, result = done.stderr.rpartition("RESULT")
        if not result:
            raise SystemExit(f"{call} failed:\n{done.stderr[-2000:]}")
        found.append(json.loads(result) | {"warned": "NumbaWarning" in said})
    numbers = {k: median(run[k] for run in found) for k in ("seconds", "cpu", "functions")}
    return found[0] | numbers


def _case(case, wheel, scratch, repeats, numba):
    other = case == "another Numba"
    environment = scratch / ("other" if other else "environment")
    packages = _install(environment, wheel, numba if other else None)
    if case == "damaged file":
        for file in (packages / "openset/_precompiled").rglob("*fill_from_points*.bin"):
            file.write_bytes(file.read_bytes()[:-7] + b"damaged")
    subprocess.run(["chmod", "-R", "a-w", packages], check=True)
    if not (scratch / "model.osm").exists():
        subprocess.run([_python(environment), "-c", _MODEL], check=True, cwd=scratch)
    variables = {"NUMBA_CPU_NAME": "nehalem"} if case == "nehalem" else {}
    calls, times = (CALLS, repeats) if case == "as built" else (["digits fit"], 1)
    rows = {call: _measure(environment, call, scratch, times, **variables) for call in calls}
    subprocess.run(["chmod", "-R", "u+w", packages], check=True)
    return rows


def _report(found, size):
    """The Markdown file."""
    answers = {
        row["answer"] for rows in found.values() for c, row in rows.items() if c == "digits fit"
    }
    lines = [
        "# First calls in a new environment",
        "",
        f"Written by `python -m benchmarks.cold_start`, {time.strftime('%Y-%m-%d %H:%M')}; shared "
        f"machine, load {os.getloadavg()[0]:.0f}: compare CPU seconds. Each call is a process of "
        "its own with imports, an empty home folder and read-only site-packages.",
        "",
        f"The wheel takes {size / 1e6:.1f} MB (at most 15 MB were wanted).",
        "",
        "| environment | Numba | first call | CPU s | wall s | functions compiled | Numba warns |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case, rows in found.items():
        for call, row in rows.items():
            figures = f"{row['cpu']:.1f} | {row['seconds']:.1f} | {row['functions']:.0f}"
            warns = "yes" if row["warned"] else "no"
            lines.append(f"| {case} | {row['numba']} | {call} | {figures} | {warns} |")
    same = "the same to the bit" if len(answers) == 1 else "**not the same**"
    lines += ["", f"The answers of the digits fit are {same} in all environments."]
    (HERE / "cold_start.md").write_text("\n".join(lines) + "\n")


def main():
    cases = ["as built", "nehalem", "damaged file", "another Numba"]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--numba", default="0.67.0", help="the other version")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=cases, choices=cases)
    parser.add_argument("--scratch", type=Path, help="kept, with what was measured so far")
    options = parser.parse_args()
    with TemporaryDirectory() as own:
        scratch = options.scratch or Path(own)
        scratch.mkdir(exist_ok=True)
        store = scratch / "found.json"
        found = json.loads(store.read_text()) if store.exists() else {}
        for case in options.only:
            arguments = case, options.wheel.resolve(), scratch, options.repeats, options.numba
            found[case] = _case(*arguments)
            store.write_text(json.dumps(found))
            print(case, found[case], flush=True)
        _report(found, options.wheel.stat().st_size)


if __name__ == "__main__":
    sys.exit(main())
