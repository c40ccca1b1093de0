import hashlib
import json
import re

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from openset.study import MEASURES, Store, Study, rank_methods, write_report

pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

OSSVM, SVM, EVM = "OpenSetSVC", "OneVsRestSVC", "ExtremeValueMachine"
BLOCKS = [("yeast", 3), ("yeast", 6), ("vowel", 3), ("vowel", 6), ("own <set>", 3)]


def as_rows(frame):
    """The columns of a store around some of them."""
    columns = ["params", "extra", "n_train", "n_test_known", "n_test_unknown"]
    return frame.assign(status="done", error=None, versions=None, **dict.fromkeys(columns))


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
    assert (
        html.count("data:image/svg+xml") == 32
    )  # two rankings of eight measures, two diagrams each
    assert "own &lt;set&gt;" in html and "own <set>" not in html
    assert "1 &lt; 2 &amp; so on" in html
    assert "openset 9.9" in html
    assert "reference" not in html
    csv, tex = ({p.stem for p in report.glob(f"tables/*.{kind}")} for kind in ("csv", "tex"))
    for kind, begin in {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}.items():
        diagrams = {p.stem: p.read_bytes() for p in report.glob(f"figures/*.{kind}")}
        assert len(diagrams) == 32 and {"control-NA", "pairs-AUS-2-methods"} < diagrams.keys()
        assert all(content.startswith(begin) for content in diagrams.values())
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
            assert_allclose(row.standard_error, np.std(mine, ddof=1) / np.sqrt(len(mine)))
    shown = (report / "tables" / "results-NA.tex").read_text("utf-8")
    assert shown.count("(3)") == 1


def test_only_the_measures_of_the_study(frame, tmp_path):
    done = frame[frame["dataset"] == "yeast"]
    counts = tuple(int(n) for n in sorted(done["n_known"].unique()))
    methods = tuple(done["method"].unique())
    study = Study("some", ("yeast",), methods, counts, runs=4, measures=("AKS", "NA"))
    folder = write_report(done, tmp_path, study=study).parent
    shown = {path.stem for path in folder.glob("tables/results-*.csv")}
    assert shown == {"results-AKS", "results-NA"}
    for rankings in rank_methods(done, study=study):
        assert [ranking.measure for ranking in rankings] == ["AKS", "NA"]


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


def test_one_block_per_dataset(frame, report):
    """The complete blocks of a dataset are averaged; one dataset alone is not ranked."""
    table = read(report, "ranks-by-dataset-2-methods").set_index(["measure", "method"])
    assert set(table["n_datasets"]) == {3}
    for measure in MEASURES:
        means = frame.groupby(["dataset", "method"])[measure].mean().unstack()[[OSSVM, SVM]]
        expected = np.mean([scipy.stats.rankdata(-row) for row in means.to_numpy()], axis=0)
        assert_allclose(table.loc[measure].loc[[OSSVM, SVM], "rank_by_dataset"], expected)
        ranks = read(report, "ranks-2-methods").set_index("method")[measure]
        assert_allclose(table.loc[measure].loc[[OSSVM, SVM], "rank"], ranks[[OSSVM, SVM]])


def test_openness_and_lambda(frame, tmp_path):
    frame = frame[frame["status"] == "done"].copy()
    is_ours = (frame["method"] == OSSVM) & (frame["dataset"] == "yeast")
    frame.loc[is_ours, "params"] = json.dumps({"gamma": 1.0, "lam": 0.25})
    fit = {"n_classes": 9, "lam": [0.25, 0.25, 0.5], "raised": 1}
    frame.loc[is_ours & (frame["run"] < 2), "extra"] = json.dumps({"fit": fit})
    folder = write_report(frame, tmp_path).parent
    openness = read(folder, "openness").set_index(["dataset", "n_known"])["openness"]
    assert_allclose(float(openness["yeast", 3]), 1 - np.sqrt(2 * 3 / (3 + 9)))
    assert openness["own <set>", 3] == ""  # its classes are not known
    (row,) = read(folder, "lambda").to_dict("records")
    assert (row["tasks"], row["machines"], row["raised"]) == (8, 12, 4)
    assert (row["chosen"], row["median"], row["largest"]) == (0.25, 0.25, 0.5)
    page = (folder / "report.html").read_text("utf-8")
    assert "raised in 4 of 12 machines" in page


def test_libraries_of_the_fingerprint(frame, tmp_path):
    frame.loc[:9, "versions"] = json.dumps({"openset": "9.8"})
    page = write_report(frame, tmp_path).read_text("utf-8")
    for version in ("9.8", "9.9"):
        text = json.dumps({"openset": version})
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        count = (frame["versions"] == text)[frame["status"] == "done"].sum()
        assert f"{count} tasks computed with openset {version} (fingerprint -{digest})" in page


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


def test_recorded_classes_bound_what_is_planned(frame, tmp_path):
    """A set that is not listed: its rows tell that nine known classes would leave none unknown."""
    own = frame[frame["dataset"] == "own <set>"].assign(extra='{"fit": {"n_classes": 9}}')
    study = Study("tiny", ("own <set>",), (OSSVM, SVM), (3, 6, 9), runs=4)
    write_report(own, tmp_path, study=study)
    assert set(read(tmp_path, "missing")["n_known"]) == {6}


def test_ratios_without_the_data(frame, tmp_path):
    """Nobody knows how many classes a quarter is, so the rows say what was planned."""
    own = frame[frame["dataset"] == "own <set>"]
    protocol = {"column": "split", "train": "train", "validation": "val"}
    study = Study("tiny", ("own <set>",), (OSSVM, SVM), (0.25,), runs=4, protocol=protocol)
    write_report(own, tmp_path, study=study)
    assert "4 runs" in (tmp_path / "report.html").read_text("utf-8")
    assert not (tmp_path / "tables" / "missing.csv").exists()


def test_from_a_store_and_in_any_order(frame, report, tmp_path):
    shuffled = frame.sample(frac=1, random_state=0)
    with Store(tmp_path / "results.sqlite", create=True) as store:
        store.put(*shuffled.astype(object).where(shuffled.notna(), None).to_dict("records"))
        write_report(store, tmp_path / "report")
        assert rank_methods(store) == rank_methods(frame)
    for path in report.rglob("*.*"):
        again = tmp_path / "report" / path.relative_to(report)
        assert again.read_bytes() == path.read_bytes(), path.name


def test_one_method_alone(frame, tmp_path):
    write_report(frame[frame["method"] == EVM], tmp_path)
    assert "there is nothing to rank yet" in (tmp_path / "report.html").read_text("utf-8")


def test_without_the_control(frame, tmp_path):
    write_report(frame[frame["method"] != OSSVM], tmp_path)
    assert set(read(tmp_path, "tests")["not_different"]) == {"–"}


def test_times(frame, report):
    table = read(report, "times").set_index("method")
    mine = frame[(frame["method"] == EVM) & (frame["status"] == "done")]
    assert table.loc[EVM, "tasks"] == len(mine) == 15
    assert_allclose(table.loc[EVM, "seconds_search"], np.median(mine["seconds_search"]))
    total = mine[["seconds_search", "seconds_fit", "seconds_predict"]].to_numpy().sum()
    assert_allclose(table.loc[EVM, "total"], total)
    hours = read(report, "times-by-dataset").set_index("dataset")
    assert_allclose(float(hours.loc["all", EVM]), total / 3600)
    done = frame[(frame["status"] == "done") & (frame["dataset"] == "vowel")]
    seconds = done[["seconds_search", "seconds_fit", "seconds_predict"]].to_numpy().sum()
    assert_allclose(float(hours.loc["vowel", "all"]), seconds / 3600)


def as_reference(rows):
    columns = ["dataset", "n_known", "method", "measure", "mean", "standard_error"]
    return pd.DataFrame(rows, columns=columns)


def test_below_by_more_than_two_standard_errors(frame, tmp_path):
    mine = frame[(frame["dataset"] == "yeast") & (frame["method"] == OSSVM)]
    cells = mine.groupby("n_known")["NA"].agg(["mean", "sem"])
    three, six = (cells.loc[n] for n in (3, 6))
    # The error of the difference is the hypotenuse of both: here sqrt(2) times ours.
    limit = 2 * np.sqrt(2) * three["sem"]
    rows = [
        ("yeast", 3, OSSVM, "NA", three["mean"] + 1.01 * limit, three["sem"]),
        ("yeast", 6, OSSVM, "NA", six["mean"] - 0.01, six["sem"]),
        ("vowel", 9, OSSVM, "NA", 0.5, 0.1),  # not among ours
    ]
    seen = []
    write_report(
        frame,
        tmp_path,
        reference=as_reference(rows),
        sections=[lambda page, folder, done: seen.append((folder, len(done)))],
    )
    assert seen == [(tmp_path / "tables", 55)]
    table = read(tmp_path, "reference-NA")
    assert table["n_known"].tolist() == [3, 6]
    assert_allclose(table["difference"], [-1.01 * limit, 0.01])
    assert_allclose(table["difference_se"], np.sqrt(2) * cells["sem"])
    assert table["below"].tolist() == [True, False]
    assert ">-2.0<" in (tmp_path / "report.html").read_text("utf-8")  # in standard errors
    (whole,) = read(tmp_path, "reference-by-dataset-NA").itertuples()
    assert_allclose(whole.ours, cells["mean"].mean())
    assert_allclose(whole.difference, (0.01 - 1.01 * limit) / 2)
    assert_allclose(whole.difference_se, np.sqrt(2) * np.hypot(*cells["sem"]) / 2)
    html = (tmp_path / "report.html").read_text("utf-8")
    assert "1 of 2 cells and measures" in html
    rows[0] = (*rows[0][:4], three["mean"] + 0.99 * limit, three["sem"])
    write_report(frame, tmp_path, reference=as_reference(rows))
    assert read(tmp_path, "reference-NA")["below"].tolist() == [False, False]


def test_methods_that_only_the_reference_has(frame, tmp_path):
    own = frame[frame["method"] == OSSVM].groupby(["dataset", "n_known"])["NA"].mean()
    rows = [
        (dataset, n, method, "NA", own[dataset, n] + shift, np.nan)
        for dataset, n in BLOCKS[:2]
        for method, shift in (("below", -0.1), ("mixed", 0.1 if n == 3 else -0.2))
    ]
    columns = ["dataset", "n_known", "method", "measure", "mean", "standard_error"]
    reference = pd.DataFrame(rows, columns=columns)
    folder = write_report(frame, tmp_path, reference=reference).parent
    page = (folder / "report.html").read_text()
    assert "above all of them in 1 of 2 figures" in page
    assert "above below in 2 of 2" in page
    assert "above mixed in 1 of 2" in page
    table = read(folder, "others-NA")
    found = table.set_index(["method", "dataset", "n_known"])["mean"]
    assert_allclose(found["below", "yeast", 3], own["yeast", 3] - 0.1)
    assert_allclose(found[OSSVM, "yeast", 6], own["yeast", 6])


def test_one_run_has_no_error_and_no_flag(frame, tmp_path):
    reference = as_reference([("yeast", 3, OSSVM, "NA", 2.0, 0.01)])
    one = frame[(frame["run"] == 0) & (frame["dataset"] == "yeast")]
    write_report(one, tmp_path, reference=reference)
    table = read(tmp_path, "reference-NA")
    assert set(table["se"]) == {""}
    assert not table["below"].any()


def test_order_of_datasets_and_methods(frame, tmp_path):
    study = Study("tiny", ("vowel", "yeast"), (SVM, EVM, OSSVM), (3, 6), runs=4)
    for planned, datasets, methods in [
        (None, ["own <set>", "vowel", "yeast"], [OSSVM, EVM, SVM]),
        (study, ["vowel", "yeast", "own <set>"], [SVM, EVM, OSSVM]),
    ]:
        write_report(frame.iloc[::-1], tmp_path, study=planned)
        table = read(tmp_path, "results-NA")
        assert list(dict.fromkeys(table["dataset"])) == datasets
        assert table.query("dataset == 'yeast' and n_known == 3")["method"].tolist() == methods


def test_bad_input(frame, tmp_path):
    with pytest.raises(ValueError, match="no column 'AUS'"):
        write_report(frame.drop(columns="AUS"), tmp_path)
    with pytest.raises(ValueError, match=r"two rows of the task \(yeast, 3, 0, Ext"):
        write_report(pd.concat([frame, frame.iloc[:1]]), tmp_path)
    with pytest.raises(ValueError, match="none of the 56 rows is done"):
        write_report(frame.assign(status="failed"), tmp_path)
    with pytest.raises(ValueError, match="reference has no column 'standard_error'"):
        write_report(frame, tmp_path, reference=frame.assign(measure="NA", mean=0.5))
    twice = as_reference([("yeast", 3, OSSVM, "NA", 0.5, 0.01)] * 2)
    with pytest.raises(ValueError, match="reference has 1 rows twice"):
        write_report(frame, tmp_path, reference=twice)
    with pytest.raises(FileNotFoundError, match=r"absent\.csv"):
        write_report(frame, tmp_path, reference=tmp_path / "absent.csv")
