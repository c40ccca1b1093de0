"""Figures that the pages quote from the results: ``python studies/quoted.py [--published FOLDER]``.

It prints the tables of ``studies/results/README.md`` and ``docs/one_vs_one.md`` as they follow from
the stored results, and the single figures of the text. A line that differs from that of the page is
marked ``CHANGED``; ``--write`` puts it there. FOLDER holds ``paper_raw_results.parquet``, the
published results; without it, what is compared with them is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from openset.study import Store, load_study, stats

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from paper_tables import DATASETS, METHODS, OTHER_DATA, UNSEEN, bias_signs, read_published  # noqa: E402

BLOCK = ["dataset", "n_known"]
PAGE = HERE / "results" / "README.md"
SIGNS = HERE.parent / "docs" / "one_vs_one.md"
SHOWN = (
    *("OpenSetSVC", "ThresholdSVC", "OpenSetKNN", "PISVM", "WSVM", "ExtremeValueMachine"),
    *("SIMCA", "OneVsRestSVC", "ViM"),
)
PAPER_SHOWN = ("OpenSetSVC", "PISVM", "ExtremeValueMachine", "WSVM")
NAMES = {
    "NA": "NA",
    "HNA": "HNA",
    "OSFMmacro": "open-set F, macro",
    "OSFMmicro": "open-set F, micro",
    "FMmacro": "F with unknown as a class, macro",
    "FMmicro": "F with unknown as a class, micro",
}
SHORT = {"PISVM": "PI-SVM", "OpenSetKNN": "k-NN", "ExtremeValueMachine": "EVM", "WSVM": "W-SVM"}
SHORT |= {"OneVsRestSVC": "SVM"}
SMALL = (
    *("yeast", "mfeat-morphological", "mfeat-zernike", "mfeat-karhunen", "mfeat-fourier"),
    *("mfeat-factors", "led7", "led24", "vowel", "movement_libras"),
)
MEANS = (
    *("OpenSetSVC", "ThresholdSVC", "OpenSetKNN", "OpenSetLDA", "SIMCA", "ViM", "PISVM", "WSVM"),
    *("ExtremeValueMachine", "OneVsRestSVC"),
)


def rows_of(study: str) -> pd.DataFrame:
    """The finished rows of the stored results of a study."""
    with Store(":memory:", create=True) as store:
        store.import_csv(HERE / "results" / study / "results.csv.gz")
        rows = store.frame()
    return rows[rows["status"] == "done"]


def ranks(rows: pd.DataFrame, unit=tuple(BLOCK)) -> tuple[pd.DataFrame, int]:
    """Average ranks over complete blocks, a row per measure, and the number of blocks."""
    found = {}
    for measure in NAMES:
        cells = rows.groupby([*BLOCK, "method"])[measure].mean().unstack().dropna()
        blocks = cells.groupby(level=list(unit)).mean()
        found[measure] = pd.Series(stats.average_ranks(blocks.to_numpy()), blocks.columns)
    return pd.DataFrame(found).T, len(blocks)


def difference(n_methods: int, n_blocks: int) -> float:
    """Critical difference of Bonferroni and Dunn."""
    return stats.critical_difference(n_methods, n_blocks)


class Page:
    """Tables of a page: compared line by line, and replaced if the page is to be written."""

    def __init__(self, path: Path):
        self.path, self.changed = path, 0
        self._lines = path.read_text().split("\n")
        self._at = 0

    def table(self, heading: str) -> None:
        """Go to the line that begins with `heading`; the next lines are of the table after it."""
        self._at = next(i for i, line in enumerate(self._lines) if line.startswith(heading))

    def line(self, text: str, keys: int = 1) -> None:
        """Print a line; its first cells tell which one of the table it is."""
        start = "|".join(text.split("|")[: keys + 1]) + "|"
        found = [
            i for i, line in enumerate(self._lines) if i >= self._at and line.startswith(start)
        ]
        if not found:
            raise ValueError(f"no line of {self.path} begins with {start!r}; add it.")
        at = found[0]
        known = self._lines[at] == text
        self._lines[at] = text
        self.changed += not known
        print(text if known else f"{text}   CHANGED")

    def write(self) -> None:
        """Write the page with the lines that were printed."""
        self.path.write_text("\n".join(self._lines))


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n## {text}")


def bold(text: str, marked: bool) -> str:
    """The text, in bold if it is marked."""
    return f"**{text}**" if marked else text


def rank_table(page: Page | None, rows: pd.DataFrame, shown, first=False) -> pd.DataFrame:
    """Ranks by cells and by datasets; those by cells."""
    (by_cells, n), (by_sets, k) = ranks(rows), ranks(rows, ["dataset"])
    m = by_cells.shape[1]
    print(f"{m} methods; critical difference {difference(m, n):.2f} over {n} cells,")
    print(f"{difference(m, k):.2f} over {k} datasets")
    for measure, name in NAMES.items():
        both = [table.loc[measure] for table in (by_cells, by_sets)]
        cells = [
            " / ".join(bold(f"{v[s]:.2f}", v[s] == v.min() and not first) for v in both)
            for s in shown
        ]
        if first:
            cells.append(" / ".join(SHORT.get(v.idxmin(), v.idxmin()) for v in both))
        line = f"| {name} | {' | '.join(cells)} |"
        print(line) if page is None else page.line(line)
    for unit, table, cd in (
        ("by cells", by_cells, difference(m, n)),
        ("by datasets", by_sets, difference(m, k)),
    ):
        for measure in NAMES:
            order = table.loc[measure].sort_values()
            near = [f"{x} {v:.3f}" for x, v in order.items() if v - order.iloc[0] <= cd]
            ours = order["OpenSetSVC"]
            beyond = [x for x, v in order.items() if v - ours > cd]
            print(
                f"  {unit}, {measure}: {', '.join(near[:5])}; {len(beyond)} beyond OpenSetSVC's; "
                f"not beyond: {', '.join(x for x in order.index if x not in beyond)}"
            )
    return by_cells


def better(page: Page) -> None:
    """The default search."""
    rows = rows_of("better")
    title("better.toml: ranks by cells / by datasets")
    page.table("**Better search**")
    by_cells = rank_table(page, rows, SHOWN)
    cells = rows.groupby([*BLOCK, "method"])["NA"].mean().unstack()
    title("better.toml: NA over the cells, and rank")
    for method in cells:
        print(f"{method}: {cells[method].mean():.3f}, rank {by_cells[method]['NA']:.2f}")
    gap = cells["OpenSetSVC"] - cells["ThresholdSVC"]
    print(f"OpenSetSVC above ThresholdSVC in {(gap > 0).sum()} of {len(gap)} cells")
    sets = gap.groupby("dataset").mean().sort_values()
    print(f"mean over datasets {sets.mean():.3f} ± {sets.std() / np.sqrt(len(sets)):.3f}")
    print(sets.round(3).to_dict().__str__())
    title("better.toml: the five sets of no design, and the 14")
    page.table("**The sets that the search was not designed on.**")
    five, n5 = ranks(rows[rows["dataset"].isin(UNSEEN)])
    rest, n14 = ranks(rows[~rows["dataset"].isin(UNSEEN)])
    m = five.shape[1]
    print(f"critical differences {difference(m, n5):.2f} ({n5}), {difference(m, n14):.2f} ({n14})")
    for measure, name in NAMES.items():
        line = f"| {name}"
        for table in (five, rest):
            order = table.loc[measure].drop(["OpenSetSVC", "ThresholdSVC"]).sort_values()
            other = order.index[0]
            line += f" | {table['OpenSetSVC'][measure]:.2f} | {table['ThresholdSVC'][measure]:.2f}"
            line += f" | {order.iloc[0]:.2f} {SHORT.get(other, other)}"
        page.line(line + " |")


def small_means(page: Page) -> None:
    """AKS, AUS, NA and HNA over the ten small sets."""
    title("Means over the ten small sets, AKS / AUS / NA / HNA, n = 3 | n = 6")
    page.table("Means over the ten small sets")
    names = SHORT | {"ThresholdSVC": "SVM, one threshold", "OpenSetKNN": "OpenSetKNN"}
    for study, label, methods in (
        ("paper", "paper's", ("OpenSetSVC",)),
        ("better", "better", MEANS),
    ):
        rows = rows_of(study)
        part = rows[rows["dataset"].isin(SMALL) & rows["n_known"].isin([3, 6])]
        means = part.groupby(["method", "n_known"])[["AKS", "AUS", "NA", "HNA"]].mean()
        for method in methods:
            texts = (" / ".join(f"{v:.3f}" for v in means.loc[(method, n)]) for n in (3, 6))
            page.line(f"| {label} | {names.get(method, method)} | {' | '.join(texts)} |", keys=2)


def paper(page: Page, published: Path | None) -> None:
    """The paper's search."""
    rows = rows_of("paper")
    title("paper.toml: the paper's nine methods, ranks by cells / by datasets")
    nine = rows[rows["method"] != "ThresholdSVC"]
    page.table("**Paper's search**")
    rank_table(page, nine, PAPER_SHOWN, first=True)
    title("paper.toml: with ThresholdSVC")
    rank_table(None, rows, ("ThresholdSVC", "OpenSetSVC", "WSVM"))
    title("paper_closed.toml: ranks")
    closed = rows_of("paper_closed")
    table, n = ranks(closed)
    print(f"{n} cells, critical difference {difference(table.shape[1], n):.2f}")
    print(table.loc["NA"].sort_values().round(2).to_dict().__str__())
    if published is None:
        return
    draws = rows_of("paper_draws")
    reference = read_published(published)
    title("paper.toml and paper_draws.toml: OpenSetSVC and the published NA")
    page.table("## The paper's search: as published?")
    for dataset in DATASETS:
        if dataset not in set(rows["dataset"]):
            continue
        ours = mean_and_error(rows, dataset, "OpenSetSVC")
        theirs = mean_and_error(reference, dataset, "OpenSetSVC")
        note = " (other features)" if dataset in OTHER_DATA and dataset != "kddcup" else ""
        cells = [f"{dataset}{note}", text(ours), text(theirs), marked_z(ours, theirs, not note)]
        if note:
            page.line(f"| {' | '.join(cells)} |  |  |")
            continue
        more = mean_and_error(draws, dataset, "OpenSetSVC")
        page.line(f"| {' | '.join([*cells, text(more), marked_z(more, theirs)])} |")
    title("Sets of 16 on which the mean NA lies within two standard errors")
    sixteen = [d for d in DATASETS if d in set(rows["dataset"])]
    sixteen = [d for d in sixteen if d == "kddcup" or d not in OTHER_DATA]
    for method in METHODS:
        pairs = [[mean_and_error(t, d, method) for t in (rows, reference)] for d in sixteen]
        print(f"{method}: {sum(abs(z(a, b)) <= 2 for a, b in pairs)} of {len(sixteen)}")
    for measure in ("AKS", "AUS"):
        gap = [
            t[t["dataset"].isin(sixteen) & (t["method"] == "WSVM")]
            .groupby("dataset")[measure]
            .mean()
            for t in (rows, reference)
        ]
        print(f"W-SVM, {measure}: ours minus published {(gap[0] - gap[1]).mean():.2f}")
    for dataset in ("mfeat-karhunen", "led24"):
        found = [mean_and_error(t, dataset, "ExtremeValueMachine")[0] for t in (rows, reference)]
        print(f"EVM on {dataset}: {found[0]:.3f}, published {found[1]:.3f}")
    reference = read_published(published, "closed")
    gaps = {}
    for dataset in closed["dataset"].unique():
        both = [mean_and_error(t, dataset, "OpenSetSVC") for t in (closed, reference)]
        gaps[dataset] = (round(both[0][0] - both[1][0], 3), round(z(*both), 1))
    title("paper_closed.toml: OpenSetSVC minus published NA, and z")
    print(f"{sum(abs(v) <= 2 for _, v in gaps.values())} of {len(gaps)} within two: {gaps}")


def mean_and_error(rows: pd.DataFrame, dataset: str, method: str) -> tuple[float, float]:
    """Mean NA over the cells of a dataset, and its standard error over draws."""
    part = rows[(rows["dataset"] == dataset) & (rows["method"] == method)]
    cells = part.groupby("n_known")["NA"].agg(["mean", "var", "count"])
    return cells["mean"].mean(), np.sqrt((cells["var"] / cells["count"]).sum()) / len(cells)


def z(ours: tuple[float, float], theirs: tuple[float, float]) -> float:
    """The difference in standard errors of the difference."""
    return (ours[0] - theirs[0]) / np.hypot(ours[1], theirs[1])


def marked_z(ours, theirs, mark=True) -> str:
    """It as text, in bold beyond two."""
    value = z(ours, theirs)
    return bold(f"{value:.1f}", mark and abs(value) > 2)


def text(pair: tuple[float, float]) -> str:
    """Mean and error."""
    return f"{pair[0]:.3f} ± {pair[1]:.3f}"


def signs_and_lambda(page: Page) -> None:
    """Signs of the biases, the lambda of the search, how often it was raised."""
    title("Signs of the biases, paper.toml")
    table = bias_signs(rows_of("paper")).set_index("dataset")
    columns = ["ova", "paper_ova", "ovo", "paper_ovo"]
    page.table("| dataset | one against rest")
    for dataset, row in table[columns].reindex(d for d in DATASETS if d in table.index).iterrows():
        note = OTHER_DATA.get(dataset, "").split(",")[0]
        name = f"{dataset} ({note})" if note else dataset
        page.line(f"| {name} | {' | '.join(f'{v:.2f}' for v in row)} |")
    print(table[["before", "after"]].round(2).to_string())
    for name in ("ova", "ovo"):
        gap = (table[name] - table[f"paper_{name}"]).abs()
        print(f"{name}: within 2 on {(gap <= 2).sum()}, within 6 on {(gap <= 6).sum()} sets")
    for study in ("better", "paper"):
        rows = rows_of(study)
        title(f"{study}.toml: lambda, versions, hours")
        part = rows[rows["method"] == "OpenSetSVC"]
        lam = [json.loads(p)["lam"] for p in part["params"]]
        lam = [np.mean(list(v.values()) if isinstance(v, dict) else v) for v in lam]
        after = [b for e in part["extra"] for b in json.loads(e)["bias_after"]]
        fits = [json.loads(e).get("fit", {}) for e in part["extra"]]
        raised = sum(f.get("raised") or 0 for f in fits)
        print(f"mean lambda {np.mean(lam):.2f}; {len(after)} machines, largest bias {max(after)}")
        print(f"raised {raised}, recorded in {sum('raised' in f for f in fits)} rows")
        bias = [
            b
            for e in rows[rows["method"] == "ThresholdSVC"]["extra"]
            for b in json.loads(e)["bias_after"]
        ]
        print(f"ThresholdSVC: {sum(b >= 0 for b in bias)} of {len(bias)} biases not negative")
        print(
            rows.groupby(rows["versions"].map(lambda v: json.loads(v)["openset"]))
            .size()
            .to_string()
        )


def costs(page: Page) -> None:
    """Core-minutes of paper.toml by dataset and method."""
    page.table("Core-minutes of `paper.toml`")
    title("paper.toml: core-minutes")
    columns = ("OpenSetSVC", "OneVsRestSVC", "MulticlassOneClassSVM", "MulticlassSVDD")
    columns += (
        "DecisionBoundaryCarving",
        "OneVsSetMachine",
        "WSVM",
        "PISVM",
        "ExtremeValueMachine",
    )
    for study in ("paper", "better"):
        rows = rows_of(study)
        seconds = rows[["seconds_search", "seconds_fit", "seconds_predict"]].sum(axis=1)
        minutes = rows.assign(m=seconds / 60).pivot_table(
            index="dataset", columns="method", values="m", aggfunc="sum"
        )
        print(f"{study}: {minutes.to_numpy().sum() / 60:.1f} core-hours")
        print((minutes.sum() / 60).round(2).to_dict().__str__())
        if study == "paper":
            table = minutes[list(columns)]
            for dataset in list(load_study(HERE / "paper.toml").datasets):
                values = [*table.loc[dataset], table.loc[dataset].sum()]
                page.line(f"| {dataset} | {' | '.join(f'{v:.1f}' for v in values)} |")
            values = [*table.sum(), table.to_numpy().sum()]
            page.line(f"| all | {' | '.join(f'{v:.1f}' for v in values)} |")


def main() -> int:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--published", type=Path)
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    arguments = parser.parse_args()
    page, signs = Page(PAGE), Page(SIGNS)
    better(page)
    small_means(page)
    paper(page, arguments.published)
    signs_and_lambda(signs)
    costs(page)
    changed = page.changed + signs.changed
    if arguments.write:
        page.write()
        signs.write()
    print(f"\n{changed} lines of tables {'were' if arguments.write else 'are'} not as on the pages")
    return int(changed > 0 and not arguments.write)


if __name__ == "__main__":
    sys.exit(main())
