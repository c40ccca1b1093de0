"""A folder of Parquet parts, in this process and on a Dask cluster."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from openset.cli import _fit  # noqa: E402
from openset.persistence import load_model, read_card  # noqa: E402


def _write(folder, frame, n_parts=3):
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), n_parts)):
        frame.iloc[rows].to_parquet(folder / f"{k}.parquet")


def table(n=600, n_classes=3):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = 4 * rng.normal(size=(n_classes, 3))[y] + rng.normal(size=(n, 3))
    names = np.array(["ant", "bee", "cat", "dog"])
    return pd.DataFrame(X, columns=list("xyz")).assign(kind=names[y])


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    return folder


def test_a_folder_is_the_table_of_its_parts(run, folder, tmp_path):
    frame = table().sort_values("kind")  # classes occur in one part only
    frame.to_parquet(tmp_path / "whole.parquet")
    frame[:200].to_parquet(folder / "1.parquet")
    frame[:0].to_parquet(folder / "2.parquet")  # empty
    other = frame[200:400][["kind", "z", "y", "x"]].astype({"x": np.float32})
    other.to_parquet(folder / "3.parquet")  # another order, narrower numbers
    frame[400:].to_parquet(folder / "4.parquet")
    (folder / "_SUCCESS").touch()
    answers = []
    for data in (tmp_path / "whole.parquet", folder):
        model, output = tmp_path / f"{data.stem}.openset", tmp_path / f"{data.stem}.csv"
        options = ["-t", "kind", "--landmarks", 30, "--turns", 0]
        assert run("fit", data, "-o", model, *options).exit_code == 0
        assert run("predict", model, data, "-o", output).exit_code == 0
        answers.append(pd.read_csv(output))
    assert len(answers[1]) == 600
    assert list(answers[0].kind) == list(answers[1].kind)
    assert np.mean(answers[0].prediction == answers[1].prediction) > 0.99


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="y"), "different columns (only one has 'y')"),
        (lambda f: f.assign(more=1), "different columns (only one has 'more')"),
        (lambda f: f.assign(x="text"), "has other types"),
        (lambda f: f.assign(x=np.where(f.x > 9e9, f.x, np.nan)), "missing values"),
    ],
)
def test_bad_parts(fails, folder, tmp_path, change, message):
    frame = table()
    frame[:300].to_parquet(folder / "1.parquet")
    change(frame[300:]).to_parquet(folder / "2.parquet")
    model = tmp_path / "model.openset"
    assert message in fails("fit", folder, "-t", "kind", "-o", model, "--landmarks", 20)
    assert not model.exists()


def test_a_damaged_part(fails, folder, tmp_path):
    frame = table()
    frame[:300].to_parquet(folder / "1.parquet")
    (folder / "2.parquet").write_bytes(b"PAR1 and nothing else")
    model = tmp_path / "model.openset"
    assert "2.parquet" in fails("fit", folder, "-t", "kind", "-o", model, "--landmarks", 20)


def test_only_empty_parts(fails, folder, tmp_path):
    table()[:0].to_parquet(folder / "1.parquet")
    assert "no rows" in fails("fit", folder, "-t", "kind", "-o", tmp_path / "m", "--landmarks", 20)


def test_bad_schedulers(run, fails, folder, tmp_path):
    pytest.importorskip("distributed")
    table().to_parquet(folder / "1.parquet")
    fit = ["fit", folder, "-t", "kind", "-o", tmp_path / "m", "--turns", 0]
    assert run(*fit, "--scheduler", "tcp://127.0.0.1:1").exit_code == 2  # without landmarks
    nowhere = [*fit, "--landmarks", 20, "--scheduler", "tcp://127.0.0.1:1"]
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in fails(*nowhere)


@pytest.mark.slow
def test_a_cluster_gives_the_same_answers(run, folder, tmp_path):
    distributed = pytest.importorskip("distributed")
    frame = table(4000, 4)
    for k in range(4):
        frame[k::4].to_parquet(folder / f"{k}.parquet")
    fit = ["fit", folder, "-t", "kind", "--landmarks", 60, "--turns", 0, "--search-rows", 400]
    answers = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        for where in ([], ["--scheduler", cluster.scheduler_address]):
            model, output = tmp_path / "model.openset", tmp_path / "answers.csv"
            assert run(*fit, "-o", model, *where).exit_code == 0
            assert run("predict", model, folder, "-o", output, *where).exit_code == 0
            answers.append(pd.read_csv(output))
    assert list(answers[0].kind) == list(answers[1].kind)
    assert np.mean(answers[0].prediction == answers[1].prediction) >= 0.999
    assert np.abs(answers[0].known_score - answers[1].known_score).max() < 5e-3


@pytest.mark.slow
def test_workers_read_what_the_caller_does_not(run, folder, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(_fit, "_HEADS", 300)
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 4
    data = pd.DataFrame(5 * rng.normal(size=(4, 3))[y] + rng.normal(size=(3000, 3)))
    data.columns = list("pqr")
    _write(folder, data.assign(kind=np.array(["a", "b", "c", "d"])[y]))
    model = tmp_path / "model.openset"
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        fit = ["fit", folder, "-t", "kind", "-o", model, "--landmarks", 60, "--turns", 0]
        result = run(*fit, "--scheduler", cluster.scheduler_address, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["data"]["rows_used"] == 3000
    assert read_card(model)["data"]["rows_by_class"] == dict.fromkeys("abcd", 750)
    fitted, X = load_model(model), data.to_numpy()
    Z = fitted[:-1].transform(X)
    expected = clone(fitted[-1]).fit(Z, np.array(["a", "b", "c", "d"])[y])
    scores = fitted[-1].decision_function(Z)
    assert_allclose(scores, expected.decision_function(Z), atol=5e-3)
