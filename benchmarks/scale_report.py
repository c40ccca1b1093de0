"""Write benchmarks/scale.md and docs/images/landmarks.png from the results of the scale jobs.

``python -m benchmarks.scale_report``, after landmark_quality, scale_kdd and landmark_rivals.
"""

import json
from pathlib import Path

from .report import table

_HERE = Path(__file__).resolve().parent
_TITLES = {
    "letter": "letter, 20 known classes, 7,708 rows, all of them landmarks in the last line; "
    "setting by a search of the exact machine over part of the default grid (5 widths, 2 C, 3 "
    "lambdas, two repeats)",
    "clinc150": "CLINC150 with its out-of-scope test, 15,000 rows; setting of clinc150.md",
    "mnist": "MNIST, digits 0 to 5 known, 36,017 rows; setting by the default search on 3000 rows",
}
_INTRO = """# Many samples: landmarks

Written by `python -m benchmarks.scale_report`. Two cores, {note}. CPU seconds are summed over
threads. NA is the normalised accuracy on the test set; every model is fitted to a KKT gap of at
most 1e-3 (2e-3 with landmarks, measured over all rows), and the bias of every class is negative.
"""


def _load(name):
    path = _HERE / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _quality(results):
    lines = [
        "## Quality",
        "",
        "One split and one seed each, so differences of a few thousandths are noise. How landmarks "
        "are chosen (random, largest multipliers, matching pursuit) was decided on training rows "
        "of the three sets alone: half of them held out, and further classes withheld.",
        "",
    ]
    for name, rows in results.items():
        setting = f"gamma {rows[0]['gamma']:g}, C {rows[0]['C']:g}"
        lines += [f"{_TITLES[name]} ({setting}).", ""]
        exact = rows[0]["NA"]
        rows = sorted(rows, key=lambda row: (row.get("drawn", "chosen") != "chosen", _size(row)))
        cells = [
            [
                _name(row),
                f"{row['NA']:.4f}",
                f"{row['NA'] - exact:+.4f}",
                f"{row['bounded']} of {row['n_classes']}",
                f"{row['kkt_gap']:.1e}",
                f"{row['cpu_seconds']:.1f}",
            ]
            for row in rows
        ]
        header = ["landmarks", "NA", "NA less exact", "bounded", "KKT gap", "CPU s"]
        lines += [table([header, *cells]), ""]
    return lines


def _size(row):
    return row["landmarks"] or 0


def _name(row):
    if row["landmarks"] is None:
        return "none (exact)"
    return f"{row['landmarks']}{', at random' if row.get('drawn') == 'at random' else ''}"


def _kdd(results):
    header = ["landmarks", "fit CPU s", "fit s", "memory of the fit", "points kept"]
    header += ["KKT gap", "predict CPU s", "predict s", "NA", "NA, distinct rows"]
    rows = [
        [
            size,
            f"{row['fit_cpu_seconds']:.1f}",
            f"{row['fit_seconds']:.0f}",
            f"{row['fit_mb']:.0f} MB",
            f"{row['vectors']}",
            f"{row['kkt_gap']:.1e}",
            f"{row['predict_cpu_seconds']:.1f}",
            f"{row['predict_seconds']:.0f}",
            f"{row['NA']:.3f}",
            f"{row['NA_distinct']:.3f}",
        ]
        for size, row in results.items()
    ]
    text = (
        "All 494,021 training rows as they are, 23 classes, gamma 1, C 8; 311,029 test rows. The "
        "row of the exact machine was measured before the others, with an earlier solver."
    )
    return ["## KDD Cup 99", "", text, "", table([header, *rows]), ""]


def _rivals(results):
    lines = ["## Against Nystroem + OneVsRestClassifier(LinearSVC), the same landmarks", ""]
    rows = [
        [name, program, _seconds(row, "cpu_seconds"), _seconds(row, "seconds"), _score(row)]
        for name, programs in results.items()
        for program, row in programs.items()
    ]
    note = (
        "The rival's CPU seconds leave out its worker processes. With the hinge loss, which is "
        "ours, LinearSVC stops after 1000 iterations without having converged on most classes of "
        "letter; the squared hinge (`dual=False`) is another objective, which converges and scores "
        "higher on letter than ours with lam 0, but not than ours with lam 0.05, which the default "
        "search chooses there. On KDD the squared hinge takes 333 s on a machine shared with other "
        "work (ours in the same run 5.9 s) and has a lower NA; the hinge loss was ended after the "
        "time that is given as a lower bound, so its NA is not known: with enough time it would "
        "solve our problem."
    )
    header = ["data", "program", "CPU s", "seconds", "NA"]
    return [*lines, table([header, *rows]), "", note, ""]


def _seconds(row, name):
    if "more_than" in row:
        return f"more than {row['more_than']:.0f}" if name == "seconds" else "-"
    return f"{row[name]:.1f}"


def _score(row):
    return "-" if "more_than" in row else f"{row['NA']:.4f}"


def _million(results):
    text = (
        "ALOI rows with small noise, gamma 0.5, C 8; accuracy on clean rows, "
        "with rejection and without (closed set). The exact machine learns from the 54,000 clean "
        "rows. The seconds are those of `fit` with all arrays in main memory, after a small fit "
        "that compiles. One run each; a second one on the GPU, slowed by timers, took 19 s."
    )
    rows = [
        [
            f"{row['landmarks'] or 'none (exact)'}",
            f"{row['rows']:,}",
            f"{row['classes']}",
            "H200" if row["device"] == "cuda" else "CPU",
            f"{row['cores']}",
            f"{row['fit_seconds']:.1f}",
            f"{row['fit_cpu_seconds']:.0f}",
            f"{row['peak_mb']:.0f} MB",
            f"{row['kkt_gap']:.1e}",
            f"{row['bounded']}",
            f"{row['accuracy']:.4f}",
            f"{row['accuracy_known']:.4f}",
        ]
        for row in results
    ]
    header = [
        "landmarks",
        "rows",
        "classes",
        "device",
        "cores",
        "fit s",
        "CPU s",
        "peak memory",
        "KKT gap",
    ]
    header += ["bounded", "accuracy", "closed set"]
    title = "## A million rows of 128 features, 1000 classes"
    return [title, "", text, "", table([header, *rows]), ""]


def _dask(row):
    memory = ", ".join(f"{mb:.0f}" for mb in row["workers_mb"])
    text = (
        f"{row['rows']:,} rows of 128 features in 20 classes, made on three worker processes whose "
        f"memory is limited to {row['limit']} each; 500 landmarks. The fit took "
        f"{row['seconds']:.0f} s (this machine, under load); the workers used at most {memory} MB, "
        f"the calling process {row['driver_mb']:.0f} MB; KKT gap {row['kkt_gap']:.1e}, accuracy "
        f"{row['accuracy_fresh']:.4f} on fresh rows."
    )
    return ["## Dask", "", text, ""]


def _figure(results):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(3.4 * len(results), 2.8))
    for ax, (name, rows) in zip(_as_list(axes), results.items(), strict=True):
        sizes = set()
        for drawn, style in (("chosen", "o-"), ("at random", "s:")):
            points = sorted(
                (row["landmarks"], row["NA"])
                for row in rows
                if row["landmarks"] is not None and row.get("drawn", "chosen") == drawn
            )
            if points:
                ax.plot(*zip(*points, strict=True), style, label=f"landmarks, {drawn}")
                sizes |= {size for size, _ in points}
        ax.axhline(rows[0]["NA"], color="black", lw=1, label="exact")
        ax.axhspan(rows[0]["NA"] - 0.01, rows[0]["NA"] + 0.01, color="black", alpha=0.1, lw=0)
        ax.set(xscale="log", xlabel="landmarks", title=name)
        ax.set_xticks(sorted(sizes), [str(size) for size in sorted(sizes)])
        ax.minorticks_off()
    _as_list(axes)[0].set_ylabel("normalised accuracy")
    _as_list(axes)[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(_HERE.parent / "docs" / "images" / "landmarks.png", dpi=110)


def _as_list(axes):
    return axes if hasattr(axes, "__len__") else [axes]


def main():
    note = (
        "pinned on a machine with 16, for KDD, the race and a million rows; the quality and Dask "
        "come from a machine with two cores that was shared with other work (load 3 to 15), one "
        "thread: read their CPU seconds"
    )
    quality = _load("landmarks")
    lines = [_INTRO.format(note=note)]
    if quality:
        lines += [*_quality(quality), "![NA against landmarks](../docs/images/landmarks.png)", ""]
        _figure(quality)
    sections = {"kdd": _kdd, "landmark-rivals": _rivals, "million": _million, "dask": _dask}
    for name, section in sections.items():
        if results := _load(name):
            lines += section(results)
    (_HERE / "scale.md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
