import json
import re

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from openset.study import MEASURES, Store, Study, write_report
from openset.study._published import MEASURES as PUBLISHED_MEASURES
from openset.study._published import METHODS, read_published
from openset.study._report_data import cells, collect
from openset.study._report_published import beside, over_n
from openset.study._report_tables import Table, duration, p_value, with_error
from openset.study._tasks import COLUMNS
from openset.utils.page import Cell, Page

pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

OSSVM, SVM, EVM = "OpenSetSVC", "OneVsRestSVC", "ExtremeValueMachine"
BLOCKS = [("yeast", 3), ("yeast", 6), ("vowel", 3), ("vowel", 6), ("own <set>", 3)]


def as_rows(frame):
    """The columns of a store around some of them."""
    return frame.assign(status="done", error=None).reindex(columns=list(COLUMNS))


@pytest.fixture(scope="module")
def rows():
    """Five blocks, four runs, three methods; the EVM fails once in vowel and lacks own <set>."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "dataset": dataset,
            "n_known": n,
            "run": run,
            "method": method,
            **dict(zip(MEASURES, rng.random(8).round(3), strict=True)),
            "seconds_search": rng.random(),
            "seconds_fit": rng.random(),
            "seconds_predict": rng.random(),
        }
        for dataset, n in BLOCKS
        for run in range(4)
        for method in (EVM, SVM, OSSVM)
        if (dataset, method) != ("own <set>", EVM)
    ]
    frame = as_rows(pd.DataFrame(rows))
    failed = frame.query(
        "dataset == 'vowel' and n_known == 6 and run == 2 and method == @EVM"
    ).index
    frame.loc[failed, [*MEASURES]] = np.nan
    frame.loc[failed, "status"] = "failed"
    frame.loc[failed, "error"] = "ValueError: 1 < 2 & so on"
    frame["versions"] = json.dumps({"openset": "9.9"})
    return frame


@pytest.fixture
def frame(rows):
    return rows.copy()


@pytest.fixture(scope="module")
def report(rows, tmp_path_factory):
    """Folder of a report on these rows, with nothing else given."""
    return write_report(rows, tmp_path_factory.mktemp("made") / "deep" / "report").parent


def read(folder, name):
    return pd.read_csv(folder / "tables" / f"{name}.csv", keep_default_na=False)


def test_files_and_page(report):
    html = (report / "report.html").read_text("utf-8")
    assert not re.search(r"(src|href)=\"(?!#|data:)|<script|<link", html)
    assert html.count("data:image/svg+xml") == 16  # two rankings of eight measures
    assert "own &lt;set&gt;" in html and "own <set>" not in html
    assert "1 &lt; 2 &amp; so on" in html
    assert "openset 9.9" in html
    assert "were not given (published=" in html
    csv, tex = ({p.stem for p in report.glob(f"tables/*.{kind}")} for kind in ("csv", "tex"))
    assert csv == tex >= {"ranks", "tests", "pairs", "results-NA", "times", "missing", "failed"}


def test_results_table(frame, report):
    for measure in MEASURES:
        table = read(report, f"results-{measure}")
        assert len(table) == 14
        for row in table.itertuples():
            mine = [
                r[measure]
                for r in frame.to_dict("records")
                if (r["dataset"], r["n_known"], r["method"], r["status"])
                == (row.dataset, row.n_known, row.method, "done")
            ]
            is_short = (row.dataset, row.n_known, row.method) == ("vowel", 6, EVM)
            assert row.n == len(mine) == (3 if is_short else 4)
            assert_allclose(row.mean, np.mean(mine))
            assert_allclose(row.std, np.std(mine, ddof=1))
            assert_allclose(row.se, np.std(mine, ddof=1) / np.sqrt(len(mine)))
    shown = (report / "tables" / "results-NA.tex").read_text("utf-8")
    assert shown.count("(3)") == 1


def test_only_complete_blocks_are_ranked(frame, report):
    for name, methods, blocks in [
        ("", [OSSVM, SVM, EVM], BLOCKS[:3]),
        ("-2-methods", [OSSVM, SVM], BLOCKS),
    ]:
        ranks = read(report, f"ranks{name}").set_index("method")
        tests = read(report, f"tests{name}").set_index("measure")
        for measure in MEASURES:
            means = frame.groupby(["dataset", "n_known", "method"])[measure].mean()
            scores = np.array([[means[(*block, m)] for m in methods] for block in blocks])
            expected = np.mean([scipy.stats.rankdata(-row) for row in scores], axis=0)
            assert_allclose(ranks.loc[methods, measure], expected)
            assert tests.loc[measure, "n_blocks"] == len(blocks)
            if len(methods) > 2:
                friedman = scipy.stats.friedmanchisquare(*scores.T)
                assert_allclose(tests.loc[measure, ["chi2", "p_chi2"]].astype(float), friedman)
    html = (report / "report.html").read_text("utf-8")
    assert "All methods: 3 complete blocks of 5" in html
    assert "OSSVM, SVM: 5 complete blocks of 5" in html


def test_missing_without_a_study(frame, report):
    missing = read(report, "missing")
    tasks = set(missing.itertuples(index=False, name=None))
    assert tasks == {("vowel", 6, 2, EVM), *(("own <set>", 3, run, EVM) for run in range(4))}
    assert read(report, "failed")["error"].tolist() == ["ValueError: 1 < 2 & so on"]


def test_missing_of_a_study(frame, tmp_path):
    study = Study("tiny", ("yeast", "vowel"), (OSSVM, SVM), (3, 6, 9), runs=5)
    write_report(frame, tmp_path, study=study)
    missing = read(tmp_path, "missing")
    # Run 4 of the four blocks that were begun; all of vowel with 9; yeast has but 9 classes.
    assert len(missing) == 4 * 2 + 5 * 2
    assert set(missing.query("n_known == 9")["dataset"]) == {"vowel"}
    html = (tmp_path / "report.html").read_text("utf-8")
    assert "<title>Study tiny</title>" in html
    assert "there is nothing to rank yet" in html  # no cell has its five runs


def test_from_a_store_and_in_any_order(frame, report, tmp_path):
    shuffled = frame.sample(frac=1, random_state=0)
    with Store(tmp_path / "results.sqlite", create=True) as store:
        store.put(*shuffled.astype(object).where(shuffled.notna(), None).to_dict("records"))
        write_report(store, tmp_path / "report")
    for path in report.rglob("*.*"):
        again = tmp_path / "report" / path.relative_to(report)
        assert again.read_text("utf-8") == path.read_text("utf-8"), path.name


def test_one_method_alone(frame, tmp_path):
    write_report(frame[frame["method"] == EVM], tmp_path)
    assert "there is nothing to rank yet" in (tmp_path / "report.html").read_text("utf-8")


def test_without_the_control(frame, tmp_path):
    write_report(frame[frame["method"] != OSSVM], tmp_path)
    assert set(read(tmp_path, "tests")["not_different"]) == {"–"}


def test_biases_are_pooled_over_runs_and_numbers(frame, tmp_path):
    frame = frame.astype({"bias_before": object, "bias_after": object, "ovo_bias": object})
    rng = np.random.default_rng(1)
    negative, total = dict.fromkeys(("ova", "ovo", "before"), 0), dict.fromkeys(("ova", "ovo"), 0)
    for i, row in frame[frame["dataset"] == "yeast"].iterrows():
        n = row["n_known"]
        biases, pairs = rng.normal(-0.5, 1, n), rng.normal(0, 1, n * (n - 1) // 2)
        if row["method"] == SVM:
            frame.at[i, "bias_before"] = frame.at[i, "bias_after"] = json.dumps(biases.tolist())
            frame.at[i, "ovo_bias"] = json.dumps(pairs.tolist())
            negative["ova"] += int((biases < 0).sum())
            negative["ovo"] += int((pairs < 0).sum())
            total["ova"] += n
            total["ovo"] += len(pairs)
        elif row["method"] == OSSVM:
            frame.at[i, "bias_before"] = json.dumps(biases.tolist())
            frame.at[i, "bias_after"] = json.dumps((-np.abs(biases)).tolist())
            negative["before"] += int((biases < 0).sum())
    write_report(frame, tmp_path)
    table = read(tmp_path, "bias-signs")
    assert table["dataset"].tolist() == ["yeast"]
    row = table.iloc[0]
    assert (row["ova_machines"], row["ovo_machines"]) == (total["ova"], total["ovo"])
    assert total["ova"] == 4 * (3 + 6)
    assert_allclose(row["ova"], 100 * negative["ova"] / total["ova"])
    assert_allclose(row["ovo"], 100 * negative["ovo"] / total["ovo"])
    assert_allclose(row["before"], 100 * negative["before"] / total["ova"])
    assert row["after"] == 100
    assert (row["paper_ova"], row["paper_ovo"]) == (93.33, 26.40)


def test_times(frame, report):
    table = read(report, "times").set_index("method")
    mine = frame[(frame["method"] == EVM) & (frame["status"] == "done")]
    assert table.loc[EVM, "tasks"] == len(mine) == 15
    assert_allclose(table.loc[EVM, "seconds_search"], np.median(mine["seconds_search"]))
    total = mine[["seconds_search", "seconds_fit", "seconds_predict"]].to_numpy().sum()
    assert_allclose(table.loc[EVM, "total"], total)


def test_published_ranks_end_to_end(golden_dir, tmp_path):
    write_report(as_rows(read_published(golden_dir)), tmp_path, published=golden_dir)
    reference = json.loads((golden_dir / "paper_ranks.json").read_text())["ranks"]
    ranks = read(tmp_path, "ranks").set_index("method")
    tests = read(tmp_path, "tests").set_index("measure")
    for measure, published in PUBLISHED_MEASURES.items():
        expected = reference["open_set_grid_search_O"][published]
        want = [expected["average_ranks"][key] for key in METHODS.values()]
        assert_allclose(ranks.loc[list(METHODS), measure], want, atol=0.007)
        assert_allclose(tests.loc[measure, "cd_tabulated"], expected["CD"])
        assert_allclose(tests.loc[measure, "cd_exact"], expected["CD_with_exact_normal_quantile"])
    # Beside themselves the published results differ in nothing.
    table = read(tmp_path, "published-NA")
    assert len(table) == 74 * 9
    assert (table["difference"] == 0).all()
    assert not table["below"].any()


def test_means_and_errors_of_the_published_results(golden_dir):
    table = cells(read_published(golden_dir))
    reference = pd.read_csv(golden_dir / "paper_results_mean.csv.gz", keep_default_na=False)
    true = {old: new for new, old in PUBLISHED_MEASURES.items()}
    reference = reference.assign(
        dataset=reference["pmlb_name"],
        method=reference["method"].map({old: new for new, old in METHODS.items()}),
        measure=reference["measure"].map(true),
        n_known=reference["lenacs"],
    )
    keys = ["dataset", "n_known", "method", "measure"]
    both = reference.merge(table.astype({"measure": str}), on=keys, suffixes=("_ref", ""))
    assert len(both) == len(reference) > 2000
    assert_allclose(both["mean"], both["mean_ref"], rtol=1e-12)
    assert_allclose(both["std"], both["std_ref"], atol=1e-12)
    assert_allclose(both["se"], both["std_ref"] / np.sqrt(10), atol=1e-12)


def test_below_by_more_than_two_standard_errors():
    def table(means, se):
        frame = pd.DataFrame({"dataset": "yeast", "n_known": [3, 6, 9], "method": OSSVM})
        return frame.assign(measure="NA", mean=means, std=0.0, n=10, se=se)

    ours, theirs = table([0.60, 0.60, 0.75], 0.03), table([0.71, 0.69, 0.70], 0.04)
    result = beside(ours, theirs)
    assert_allclose(result["difference"], [-0.11, -0.09, 0.05])
    assert_allclose(result["difference_se"], 0.05)
    assert result["below"].tolist() == [True, False, False]
    whole = over_n(result).iloc[0]
    assert_allclose([whole["ours"], whole["published"]], [0.65, 0.70])
    assert_allclose(whole["difference_se"], 0.05 / np.sqrt(3))
    assert not whole["below"]


def test_one_run_has_no_error_and_no_flag(frame, golden_dir, tmp_path):
    one = frame[(frame["run"] == 0) & (frame["dataset"] == "yeast")]
    write_report(one, tmp_path, published=golden_dir)
    table = read(tmp_path, "published-NA")
    assert set(table["se"]) == {""}
    assert not table["below"].any()


def test_latex_of_a_table():
    table = Table(
        "t", "50 % of it", ["data_set", "NA"],
        [["a&b", Cell("0.5±.1", "best")], ["c", Cell("<0.1", "flag")], ["d", Cell("x", "soft")]],
        pd.DataFrame(),
    )  # fmt: skip
    assert table.latex().splitlines() == [
        r"% 50 % of it",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"data\_set & NA \\",
        r"\midrule",
        r"a\&b & \textbf{0.5$\pm$.1} \\",
        r"c & $<$0.1$^\ast$ \\",
        r"d & x \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_table_is_written_in_all_three_shapes(tmp_path):
    page = Page("t")
    values = pd.DataFrame({"x": [1 / 3]})
    Table("t", "c", ["x"], [["0.333"]], values).write(tmp_path, page)
    assert "0.333" in page.html()
    assert pd.read_csv(tmp_path / "t.csv")["x"][0] == 1 / 3
    assert "0.333" in (tmp_path / "t.tex").read_text()


@pytest.mark.parametrize(
    "shown, text",
    [
        (with_error(0.5, 0.0125), "0.500±.013"),
        (with_error(0.5, np.nan), "0.500"),
        (with_error(1.0, 0.0), "1.000±.000"),
        (p_value(0.0431), "0.043"),
        (p_value(3.2e-7), "3e-07"),
        (p_value(0.0), "<1e-16"),
        (duration(0.0123), "12.3 ms"),
        (duration(12.3), "12.30 s"),
        (duration(600), "10.0 min"),
        (duration(9000), "2.5 h"),
        (duration(np.nan), "–"),
    ],
)
def test_numbers_as_they_are_read(shown, text):
    assert shown == text


def test_order_of_datasets_and_methods(frame):
    data = collect(frame.iloc[::-1])
    assert data.methods == [OSSVM, SVM, EVM]
    assert list(dict.fromkeys(data.rows["dataset"])) == ["yeast", "vowel", "own <set>"]


def test_bad_input(frame, tmp_path):
    with pytest.raises(ValueError, match="no column 'AUS'"):
        write_report(frame.drop(columns="AUS"), tmp_path)
    with pytest.raises(ValueError, match=r"two rows of the task \(yeast, 3, 0, Ext"):
        write_report(pd.concat([frame, frame.iloc[:1]]), tmp_path)
    with pytest.raises(ValueError, match="none of the 56 rows is done"):
        write_report(frame.assign(status="failed"), tmp_path)
    with pytest.raises(FileNotFoundError, match="published="):
        write_report(frame, tmp_path, published=tmp_path)
