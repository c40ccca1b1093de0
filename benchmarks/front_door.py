"""What `openset fit` writes on CLINC150: python -m benchmarks.front_door [options of fit]

Reads clinc150-minilm.parquet from $OPENSET_SHARED/data and writes what it measured into
benchmarks/front_door.md, between two marks.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

SHARED = Path(os.environ.get("OPENSET_SHARED", "../shared"))
PAGE = Path(__file__).with_suffix(".md")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def openset(*words):
    command = [
        sys.executable,
        "-c",
        "import openset.cli; openset.cli.main()",
        *map(str, words),
        "--json",
    ]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    table = pd.read_parquet(SHARED / "data" / "clinc150-minilm.parquet").drop(columns="text")
    with tempfile.TemporaryDirectory() as folder:
        train, test, model = (Path(folder, n) for n in ("train.parquet", "test.parquet", "m.skops"))
        for path, splits in ((train, ["train"]), (test, ["test", "oos_test"])):
            table[table["split"].isin(splits)].drop(columns="split").to_parquet(path)
        start = time.perf_counter()
        card = openset("fit", train, "--target", "target", "-o", model, *sys.argv[1:])
        seconds = time.perf_counter() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = openset("evaluate", model, test, "--target", "target")["measures"]
    search, report = card["search"], card["held_out"]
    lines = [
        f"`openset fit` on CLINC150 with {' '.join(sys.argv[1:]) or 'its defaults'}. Written by "
        "`python -m benchmarks.front_door`. "
        f"{os.cpu_count()} cores; times are noisy where other work runs on the machine.",
        "",
        f"- time of the command: {seconds:.0f} s; processor time "
        f"{used.ru_utime + used.ru_stime:.0f} s",
        f"- tuned on {search['rows']} rows, {search['settings']} settings; chosen: "
        f"{search['chosen']}{' (the defaults)' if search['defaults'] else ''}",
        "",
        "| measure | held-out report (lowest to highest turn) | test and oos_test rows |",
        "| --- | --- | --- |",
    ]
    for name in ("accuracy_known", "accuracy_unknown", "normalized_accuracy"):
        low, high = report["spread"][name]
        said = f"{report['measures'][name]:.3f} ({low:.3f} to {high:.3f})"
        if name in report["all_known"]:
            said += f"; with no class withheld {report['all_known'][name]:.3f}"
        lines.append(f"| {name} | {said} | {found[name]:.3f} |")
    text = PAGE.read_text("utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text("\n".join([before + BEGIN, "", *lines, "", END]) + after, "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
