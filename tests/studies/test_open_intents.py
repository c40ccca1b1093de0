"""What belongs to the open-intent study: its curves, the published table, its report."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from openset.evaluation import Evaluation
from openset.study import Store, accuracy_by_rejection, load_study

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

STUDIES = Path(__file__).resolve().parents[2] / "studies"


@pytest.fixture(scope="module")
def tools():
    return runpy.run_path(str(STUDIES / "open_intents.py"))


@pytest.fixture
def evaluation():
    rng = np.random.default_rng(0)
    truth = rng.choice(list("abcx"), 400)
    scores = rng.normal(size=(400, 3)) + 2 * (truth[:, None] == np.array(list("abc")))
    return Evaluation(truth, scores, np.array(list("abc")))


def test_published(tools, golden_dir):
    table = tools["reference"](golden_dir / "textoir_published.json")
    assert len(table) == 2 * 3 * 14
    assert set(table["measure"]) == {"FMmicro"}
    best = table.groupby(["dataset", "n_known"])["mean"].max()
    assert best["clinc150-minilm", 38] == pytest.approx(0.931, abs=5e-4)
    both = tools["reference"](golden_dir / "textoir_published.json", both=True)
    best = both.groupby(["dataset", "n_known", "measure"])["mean"].max()
    assert best["banking77-minilm", 58, "f1"] == pytest.approx(86.5, abs=0.05)


def test_the_rule_stands_in_the_file():
    study = load_study(STUDIES / "open_intents.toml")
    assert study.datasets == ("clinc150-minilm", "banking77-minilm")
    assert (study.n_known, study.runs, study.seed) == ((0.25, 0.5, 0.75), 10, 0)
    assert study.operating_point == {"alpha": 0.1, "by": "highest"}


def test_report(tools, evaluation, golden_dir, tmp_path):
    found = accuracy_by_rejection(evaluation)
    curve = json.dumps(found)
    with Store(tmp_path / "r.sqlite", create=True) as store:
        for n_known in (38, 75):
            for run in (0, 1):
                for method in ("OpenSetSVC", "OSNN"):
                    store.put(
                        {
                            **{"dataset": "clinc150-minilm", "n_known": n_known, "run": run},
                            **{"method": method, "status": "done", "extra": curve},
                            **dict.fromkeys("NA HNA OSFMmacro OSFMmicro AKS AUS".split(), 0.5),
                            **{"FMmacro": 0.6 + run / 10, "FMmicro": 0.6},
                        }
                    )
        store.export_csv(tmp_path / "r.csv")
    rules = pd.read_csv(tmp_path / "r.csv")
    pd.concat(
        [rules.assign(alpha=a, fit=fit) for fit in ("train", "refit") for a in (0.05, 0.12)]
    ).to_csv(tmp_path / "rules.csv")
    page = tools["report"](
        *(STUDIES / "open_intents.toml", tmp_path / "r.csv", tmp_path / "out"),
        published=golden_dir / "textoir_published.json",
        rules=tmp_path / "rules.csv",
        others=[tmp_path / "r.csv"],
    )
    text = page.read_text()
    for words in ("tuning on the test could reach", "Operating curves", "Other rules", "DA-ADB"):
        assert words in text
    assert "train, alpha 0.12, 0.12, 0.08 by ratio" in text  # refit has not all shares
    assert "refit, alpha 0.15, 0.12, 0.08 by ratio" not in text
    assert f"OSNN, {tmp_path.name}" in text
    point = found["chosen"]
    assert f"{100 * point['accuracy']:.2f} / {100 * point['f1']:.2f}" in text


def test_a_point_that_was_not_recorded_is_interpolated(tools):
    rng = np.random.default_rng(3)
    truth = rng.choice(list("abcx"), 4000)
    scores = rng.normal(size=(4000, 3)) + 2 * (truth[:, None] == np.array(list("abc")))
    threshold = np.quantile(scores[truth != "x"].max(axis=1), 0.11)
    evaluation = Evaluation(truth, scores - threshold, np.array(list("abc")))
    record = accuracy_by_rejection(evaluation)
    point = record.pop("chosen")
    found = tools["point_of"](record, point["accuracy"])
    assert found["f1"] == pytest.approx(point["f1"], abs=3e-3)
    assert abs(found["rejected"] - 0.11) < np.diff(record["rejected"])[0]
