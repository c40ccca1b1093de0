r"""What belongs to the open-intent study alone: the published table, other rules, its report.

Run as a script::

    python studies/open_intents.py reference PUBLISHED reference.csv
    python studies/open_intents.py rules studies/open_intents.toml RESULTS rules.csv.gz
    python studies/open_intents.py report studies/open_intents.toml RESULTS FOLDER \
        --published PUBLISHED --rules rules.csv.gz --others RESULTS RESULTS

PUBLISHED is ``textoir_published.json``, the means of TEXTOIR's table. The first command writes its
accuracies as a table of reference results, for ``openset study report --reference``. The second
fits the finished tasks again, with the parameters they chose, and measures them at other operating
points. The third writes the report of the study from its exported results, with the published
rows, the operating curves and the other rules; the methods of other exports join the table.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

from openset.evaluation import Evaluation
from openset.study import Store, accuracy_by_rejection, draw_from_column, load_study
from openset.study.page import Cell, mark_best, number

# our name of a dataset -> (name in the published table, number of its classes)
DATASETS = {"clinc150-minilm": ("oos", 150), "banking77-minilm": ("banking", 77)}

# measure in an export -> (name in the published table, name for readers)
MEASURES = {"FMmicro": ("accuracy", "accuracy"), "FMmacro": ("f1", "macro F1")}

# Shares of the known validation rows to reject, in the other rules that are reported.
ALPHAS = (0.05, 0.08, 0.1, 0.12, 0.15, 0.2)
FOLDS = 5
# Shares by the ratio of known classes, as benchmarks/open_intents_rule.md chose them.
BY_RATIO = {"train": (0.12, 0.12, 0.08), "refit": (0.15, 0.12, 0.08), "folds": (0.15, 0.12, 0.08)}


def measure_again(task: dict, study, data_home) -> list[dict]:
    """Fit a finished task again, with the parameters it chose, and measure it under other rules.

    `task` is a row of an export. The rules are those of benchmarks/open_intents_rule.md that need
    no simulation: kinds of fit, and shares alpha of known rows that the threshold rejects.
    """
    seed = study.seed + task["run"]
    draw = draw_from_column(task["dataset"], task["n_known"], seed, data_home, **study.protocol)
    params = json.loads(task["params"])
    estimator = study.make_search(task["method"]).estimator.set_params(**params)
    X, y, train = draw.X, draw.y, draw.split.train
    both = np.concatenate([train, draw.validation])
    first, second = (clone(estimator).fit(X[rows], y[rows]) for rows in (train, both))
    held_out = first.known_score(X[draw.validation])
    fold = np.random.RandomState(seed).permutation(len(both)) % FOLDS
    parts = [(both[fold != k], both[fold == k]) for k in range(FOLDS)]
    crossed = [clone(estimator).fit(X[a], y[a]).known_score(X[b]) for a, b in parts]
    kinds = {
        "train": (first, held_out),
        "refit": (second, held_out),
        "folds": (second, np.concatenate(crossed)),
    }
    rows = []
    for kind, (model, known) in kinds.items():
        scores = model.decision_function(X[draw.split.test])
        for alpha in ALPHAS:
            threshold = np.sort(known)[int(alpha * (len(known) + 1)) - 1]
            evaluation = Evaluation(y[draw.split.test], scores - threshold, model.classes_)
            point = {"chosen": accuracy_by_rejection(evaluation)["chosen"]}
            rows.append({**task, "fit": kind, "alpha": alpha, "extra": json.dumps(point)})
    return rows


def reference(published: Path, both: bool = False) -> pd.DataFrame:
    """The published accuracies as a table of reference results; they have no standard errors.

    With `both` also F1, by the names and in the percent of the table. It is no measure of a study:
    FMmacro is the F of the mean precision and the mean recall, not the mean of the classes' F1.
    """
    table = json.loads(published.read_text(encoding="utf-8"))["results"]
    rows = [
        (
            *(dataset, round(n_classes * float(ratio)), method),
            *((key, cell[key]) if both else (measure, cell[key] / 100)),
            np.nan,
        )
        for dataset, (name, n_classes) in DATASETS.items()
        for ratio, methods in table[name].items()
        for method, cell in methods.items()
        for measure, (key, _) in MEASURES.items()
        if both or measure == "FMmicro"
    ]
    columns = ["dataset", "n_known", "method", "measure", "mean", "standard_error"]
    return pd.DataFrame(rows, columns=columns)


def measure_rules(study_path, results, data_home, methods, jobs=2) -> list[dict]:
    """Every finished task of some methods under every rule."""
    study = load_study(study_path)
    done = read_results(results)
    done = done[done["method"].isin(methods)].drop(columns="extra")
    work = partial(measure_again, study=study, data_home=data_home)
    with ProcessPoolExecutor(jobs) as pool:
        return [row for rows in pool.map(work, done.to_dict("records")) for row in rows]


def read_results(path: str | Path) -> pd.DataFrame:
    """The finished rows of an export."""
    with tempfile.TemporaryDirectory() as scratch:
        with Store(Path(scratch) / "results.sqlite", create=True) as store:
            store.import_csv(path)
            rows = store.frame()
    return rows[rows["status"] == "done"]


def add_curves(page, tables: Path, done: pd.DataFrame) -> None:
    """Draw accuracy and macro F1 against the share of known test rows that are rejected."""
    import matplotlib.pyplot as plt  # the other commands do without it

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
            points = map(point_of, recorded, rows["FMmicro"])
            point = pd.DataFrame(points).mean()
            for ax, values, measure in zip(axes, curves.values(), MEASURES, strict=True):
                ax.plot(recorded[0]["rejected"], values.mean(axis=0), color=f"C{k}", label=method)
                ax.plot(point["rejected"], point[MEASURES[measure][0]], "o", color=f"C{k}")
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
        points = list(map(point_of, recorded, group["FMmicro"]))
        for key in ("accuracy", "f1"):
            reached = np.mean([point[key] for point in points])
            ceiling = np.mean([max(*r[key], p[key]) for r, p in zip(recorded, points, strict=True)])
            row += [f"{100 * reached:.2f}", Cell(f"{100 * ceiling:.2f}", "soft")]
        rows.append(row)
    page.table(["dataset, n", "accuracy", "ceiling", "macro F1", "ceiling"], rows)


def chosen(done: pd.DataFrame) -> pd.DataFrame:
    """Columns dataset, n_known, run, method, accuracy, f1 at the operating points, in percent.

    F1 is averaged over the classes, as in the published table; the store's FMmacro is the F of the
    mean precision and the mean recall.
    """
    points = [
        point_of(json.loads(text), accuracy)
        for text, accuracy in zip(done["extra"], done["FMmicro"], strict=True)
    ]
    table = done[["dataset", "n_known", "run", "method"]].astype({"dataset": str, "method": str})
    return table.assign(
        accuracy=[100 * point["accuracy"] for point in points],
        f1=[100 * point["f1"] for point in points],
    )


def point_of(record: dict, accuracy: float) -> dict:
    """The operating point of a recorded curve.

    Some results were recorded without it. Then it is found where the curve of the accuracy has the
    stored value, as near as possible to a share of 0.1, and F1 is interpolated there; between two
    recorded shares, 0.02 apart, F1 changes by about a point at most.
    """
    if "chosen" in record:
        return record["chosen"]
    fine = np.linspace(0, 0.3, 601)
    curves = {key: np.interp(fine, record["rejected"], record[key]) for key in ("accuracy", "f1")}
    # Prefer shares near 0.1 among those whose accuracy is right to a thousandth.
    distance = np.abs(curves["accuracy"] - accuracy).clip(1e-3) + 1e-3 * np.abs(fine - 0.1)
    best = int(distance.argmin())
    return {"rejected": fine[best], "accuracy": accuracy, "f1": curves["f1"][best]}


def published_section(published: Path, others=(), control="OpenSetSVC"):
    """A section with the published table; methods of `others` are named with their folder."""

    def add_published(page, tables, done):
        theirs = reference(published, both=True).pivot_table(
            index="method", columns=["dataset", "n_known", "measure"], values="mean", sort=False
        )
        ours = pd.concat([chosen(done), *map(labelled, others)])
        ours = ours.groupby(["method", "dataset", "n_known"], sort=False)[["accuracy", "f1"]].mean()
        ours = ours.stack().unstack([1, 2, 3]).reindex(columns=theirs.columns)
        above = {
            name: (ours > limit).sum(axis=1)
            for name, limit in (("all", theirs.max()), ("DA-ADB", theirs.loc["DA-ADB"]))
        }
        page.section("The published table")
        page.paragraph(
            "Accuracy and F1 averaged over the known classes and the open class, in percent, means "
            f"of ten seeds. {control} is above every published row in {above['all'][control]} of "
            f"{len(theirs.columns)} figures, and above DA-ADB in {above['DA-ADB'][control]}. The "
            "published methods fine-tune BERT or LLaMA for every draw; ours use frozen embeddings."
        )
        both = pd.concat([ours, theirs])
        best = both.max()
        rows = [
            [
                method,
                *(str(count.get(method, "")) for count in above.values()),
                *mark_best([number(value, 2) for value in row], row, best),
            ]
            for method, row in both.iterrows()
        ]
        head = [f"{d.partition('-')[0]} {n} {measure}" for d, n, measure in both.columns]
        page.table(["method", "above all published", "above DA-ADB", *head], rows)

    return add_published


def labelled(results: str) -> pd.DataFrame:
    """:func:`chosen` of an export, with the name of its folder behind each method."""
    table = chosen(read_results(results))
    return table.assign(method=table["method"] + f", {Path(results).parent.name}")


def rules_section(rules: Path, published: Path | None, control="OpenSetSVC"):
    """A section with other rules on the same draws, from :func:`measure_rules`."""

    def add_rules(page, tables, done):
        page.section("Other rules")
        page.paragraph(
            f"{control} with the same parameters and other operating points: accuracy / F1 in "
            "percent. alpha is the share of known rows that the threshold rejects: of validation "
            "rows, by a model fitted on the training rows (train, refit), or of training and "
            f"validation rows, by {FOLDS}-fold cross-validation (folds). With refit and folds the "
            "final model is fitted on training and validation rows. The rule of the study was "
            "chosen by a simulation on training and validation rows "
            "(benchmarks/open_intents_rule.md). So were the shares by the ratio of known classes, "
            "at the end, before any of these rules was measured here. Such a rule knows from the "
            "protocol how many classes are unknown."
        )
        table = pd.read_csv(rules)
        table = table[table["method"] == control]
        table = chosen(table).assign(fit=table["fit"], alpha=table["alpha"])
        means = table.groupby(["fit", "alpha", "dataset", "n_known"])[["accuracy", "f1"]].mean()
        blocks = table[["dataset", "n_known"]].drop_duplicates().to_numpy().tolist()
        head = ["rule", *(f"{dataset.partition('-')[0]} {n}" for dataset, n in blocks)]
        if published is not None:
            best = reference(published, both=True)
            best = best.groupby(["dataset", "n_known", "measure"])["mean"].max().unstack()
            head.append("above every published row")
        parts = {
            f"{fit}, alpha {alpha:g}": part.droplevel([0, 1])
            for (fit, alpha), part in means.groupby(level=[0, 1])
        }
        place = table.groupby("dataset")["n_known"].transform(lambda n: n.rank(method="dense"))
        for fit, alphas in BY_RATIO.items():
            wanted = place.map(dict(enumerate(alphas, 1)))
            part = table[(table["fit"] == fit) & (table["alpha"] == wanted)]
            part = part.groupby(["dataset", "n_known"])[["accuracy", "f1"]].mean()
            if len(part) == len(blocks):
                parts[f"{fit}, alpha {', '.join(map(str, alphas))} by ratio"] = part
        rows = []
        for name, part in parts.items():
            cells = ["{accuracy:.2f} / {f1:.2f}".format(**part.loc[d, n]) for d, n in blocks]
            if published is not None:
                above = part[["accuracy", "f1"]] > best.loc[part.index, ["accuracy", "f1"]]
                cells.append(f"{int(above.to_numpy().sum())} of {above.size}")
            rows.append([name, *cells])
        page.table(head, rows)

    return add_rules


def report(study, results, folder, published=None, rules=None, others=()) -> Path:
    """Write the report of the study from its exported results."""
    from openset.study import write_report

    sections, table = [add_ceiling, add_curves], None
    if rules is not None:
        sections.insert(1, rules_section(Path(rules), published and Path(published)))
    if published is not None:
        table = reference(Path(published))
        sections.insert(0, published_section(Path(published), others))
    return write_report(
        read_results(results),
        folder,
        study=load_study(study),
        reference=table,
        sections=sections,
    )


def main():
    """Run one of the three commands."""
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
    other.add_argument("--rules", type=Path)
    other.add_argument("--others", nargs="*", default=(), help="exports of other studies")
    third = commands.add_parser(
        "rules", help="measure other rules with the parameters that were chosen"
    )
    third.add_argument("study")
    third.add_argument("results")
    third.add_argument("csv")
    third.add_argument("--data-home", default=os.environ.get("OPENSET_DATA"))
    a = parser.parse_args()
    if a.command == "reference":
        reference(a.published).to_csv(a.csv, index=False)
    elif a.command == "rules":
        rows = measure_rules(a.study, a.results, a.data_home, ["OpenSetSVC"])
        pd.DataFrame(rows).to_csv(a.csv, index=False)
    else:
        print(report(a.study, a.results, a.folder, a.published, a.rules, a.others))


if __name__ == "__main__":
    main()
