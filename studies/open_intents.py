"""What belongs to the open-intent study alone: its curves, the published table, its report.

Run as a script::

    python studies/open_intents.py reference PUBLISHED reference.csv
    python studies/open_intents.py report studies/open_intents.toml RESULTS FOLDER \
        --published PUBLISHED --other "default search alone" OTHER_RESULTS

PUBLISHED is ``textoir_published.json``, the means of TEXTOIR's table. The first command writes them
as a table of reference results, for ``openset study report --reference``. The second writes the
report of the study from its exported results, with the published rows, the operating curves, and
every other rule that was tried. The study records its curves through :func:`curve`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from openset.study import Store, load_study, write_report
from openset.utils import decide
from openset.utils.page import Cell

# our name of a dataset -> (name in the published table, number of its classes)
DATASETS = {"clinc150-minilm": ("oos", 150), "banking77-minilm": ("banking", 77)}

# measure in an export -> (name in the published table, name for readers)
MEASURES = {"FMmicro": ("accuracy", "accuracy"), "FMmacro": ("f1", "macro F1")}

# Shares of the known test rows that are rejected, at which a curve is recorded.
SHARES = np.linspace(0, 0.6, 31)


def curve(result, X_train, y_train) -> dict:
    """Accuracy and macro F1 on the test rows by the share of known ones rejected, and the best.

    The best of each over the thresholds is what tuning on the test rows could reach.
    """
    evaluation = result.evaluation
    n_classes = len(evaluation.classes)
    truth = np.where(
        evaluation.is_known, np.searchsorted(evaluation.classes, evaluation.truth), n_classes
    )
    best = evaluation.scores.max(axis=1)
    thresholds = np.quantile(best[evaluation.is_known], SHARES)
    values = np.array([accuracy_and_f1(truth, evaluation.scores - t) for t in thresholds])
    accuracy, f1 = values.T.round(5).tolist()
    return {"rejected": SHARES.round(3).tolist(), "accuracy": accuracy, "f1": f1}


def accuracy_and_f1(truth: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Accuracy and F1 averaged over the K classes and the open class, whose code is K."""
    size = scores.shape[1] + 1
    counts = np.bincount(truth * size + decide(scores), minlength=size * size).reshape(size, size)
    right = np.diag(counts)
    f1 = 2 * right / np.maximum(1, counts.sum(axis=0) + counts.sum(axis=1))
    return right.sum() / counts.sum(), f1.mean()


def reference(published: Path) -> pd.DataFrame:
    """The published means as a table of reference results; they have no standard errors."""
    table = json.loads(published.read_text(encoding="utf-8"))["results"]
    rows = [
        (dataset, round(n_classes * float(ratio)), method, measure, cell[key] / 100, np.nan)
        for dataset, (name, n_classes) in DATASETS.items()
        for ratio, methods in table[name].items()
        for method, cell in methods.items()
        for measure, (key, _) in MEASURES.items()
    ]
    columns = ["dataset", "n_known", "method", "measure", "mean", "standard_error"]
    return pd.DataFrame(rows, columns=columns)


def read_results(path: str | Path) -> pd.DataFrame:
    """The finished rows of an export."""
    with tempfile.TemporaryDirectory() as scratch:
        with Store(Path(scratch) / "results.sqlite", create=True) as store:
            store.import_csv(path)
            rows = store.frame()
    return rows[rows["status"] == "done"]


def add_curves(page, tables: Path, done: pd.DataFrame) -> None:
    """Draw accuracy and macro F1 against the share of known test rows that are rejected."""
    page.section("Operating curves")
    page.paragraph(
        "Accuracy and macro F1 on the test rows at every threshold, means over the draws. A dot is "
        "the operating point that the rule of the study chose without looking at a test row."
    )
    blocks = done[["dataset", "n_known"]].drop_duplicates().itertuples(index=False)
    for dataset, n_known in blocks:
        part = done[(done["dataset"] == dataset) & (done["n_known"] == n_known)]
        figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
        for k, (method, rows) in enumerate(part.groupby("method", observed=True)):
            recorded = [json.loads(text) for text in rows["extra"]]
            curves = {
                key: np.array([record[key] for record in recorded]) for key in ("accuracy", "f1")
            }
            # Where the curves of a draw come nearest to its result is its operating point.
            away = np.abs(curves["accuracy"] - rows["FMmicro"].to_numpy()[:, None])
            away += np.abs(curves["f1"] - rows["FMmacro"].to_numpy()[:, None])
            rejected = SHARES[away.argmin(axis=1)].mean()
            for ax, values, measure in zip(axes, curves.values(), MEASURES, strict=True):
                ax.plot(SHARES, values.mean(axis=0), color=f"C{k}", label=method)
                ax.plot(rejected, rows[measure].mean(), "o", color=f"C{k}")
                ax.set(xlabel="known test rows rejected", ylabel=MEASURES[measure][1])
        axes[0].legend(fontsize="small")
        page.figure(
            figure,
            alt=f"Operating curves of {dataset} with {n_known} known classes",
            caption=f"{dataset}, {n_known} known classes.",
        )


def add_ceiling(page, tables: Path, done: pd.DataFrame, control="OpenSetSVC") -> None:
    """Compare the rule with the best threshold of every draw, found on its test rows."""
    page.section("What tuning on the test could reach")
    page.paragraph(
        f"{control}: the mean over the draws under the rule, and with the threshold that is best "
        "on the test rows of each draw, in percent. The second is no result, only a ceiling."
    )
    rows = []
    part = done[done["method"] == control]
    for (dataset, n_known), group in part.groupby(["dataset", "n_known"], observed=True):
        row = [f"{dataset}, {n_known}"]
        recorded = [json.loads(text) for text in group["extra"]]
        for key, measure in zip(("accuracy", "f1"), MEASURES, strict=True):
            ceiling = np.mean([max(record[key]) for record in recorded])
            row += [f"{100 * group[measure].mean():.2f}", Cell(f"{100 * ceiling:.2f}", "soft")]
        rows.append(row)
    page.table(["dataset, n", "accuracy", "ceiling", "macro F1", "ceiling"], rows)


def rules_section(others: list[tuple[str, Path]], control="OpenSetSVC"):
    """A section with every other rule that was tried."""

    def add_rules(page, tables, done):
        page.section("Other rules that were tried")
        page.paragraph(
            f"{control}, accuracy / macro F1 in percent. The rule of this report was fixed first."
        )
        tried = [("this report", done), *((name, read_results(path)) for name, path in others)]
        header, rows = ["dataset, n", *(name for name, _ in tried)], []
        frames = [frame[frame["method"] == control] for _, frame in tried]
        keys = ["dataset", "n_known"]
        means = [f.astype({"dataset": str}).groupby(keys)[list(MEASURES)].mean() for f in frames]
        for key in means[0].index:
            cells = [
                f"{100 * m.loc[key, 'FMmicro']:.2f} / {100 * m.loc[key, 'FMmacro']:.2f}"
                if key in m.index
                else "–"
                for m in means
            ]
            rows.append([f"{key[0]}, {key[1]}", *cells])
        page.table(header, rows)

    return add_rules


def report(study, results, folder, published=None, others=()) -> Path:
    """Write the report of the study from its exported results."""
    sections = [add_ceiling, add_curves]
    if others:
        sections.insert(1, rules_section(others))
    table = None if published is None else reference(Path(published))
    return write_report(
        read_results(results),
        folder,
        study=load_study(study),
        reference=table,
        sections=sections,
    )


def main():
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("reference", help="write the table of reference results")
    one.add_argument("published", type=Path)
    one.add_argument("csv")
    other = commands.add_parser("report", help="write the report of the study")
    other.add_argument("study")
    other.add_argument("results")
    other.add_argument("folder")
    other.add_argument("--published", type=Path)
    other.add_argument("--other", nargs=2, action="append", default=[], metavar=("NAME", "CSV"))
    arguments = parser.parse_args()
    if arguments.command == "reference":
        reference(arguments.published).to_csv(arguments.csv, index=False)
    else:
        a = arguments
        print(report(a.study, a.results, a.folder, a.published, a.other))


if __name__ == "__main__":
    main()
