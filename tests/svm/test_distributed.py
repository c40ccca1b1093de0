"""Landmark models on Dask collections: the answer of one machine, lost workers, bad parts."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset import OneVsRestSVC, OpenSetSVC
from openset.svm import fit_distributed, predict_distributed

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


def blobs(m=1500, d=4, n_classes=5):
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, size=m)
    return 3 * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(m, d)), y


def model(**changes):
    parameters = {"gamma": 0.2, "C": 4.0, "landmarks": 60, "random_state": 0, "tol": 1e-4}
    return OpenSetSVC(**{**parameters, **changes})


def agree(fitted, expected, X, atol=1e-3):
    f, g = fitted.decision_function(X), expected.decision_function(X)
    assert np.mean(fitted.predict(X) == expected.predict(X)) >= 0.999
    assert_allclose(f, g, atol=atol)


@pytest.mark.parametrize("chunk", [200, 1500])
@pytest.mark.parametrize("gamma", [0.2, "scale"])
def test_the_answer_of_one_machine(chunk, gamma):
    X, y = blobs()
    expected = model(gamma=gamma).fit(X, y)
    fitted = fit_distributed(
        model(gamma=gamma), da.from_array(X, (chunk, 4)), da.from_array(y, chunk)
    )
    assert fitted.get_params() == expected.get_params()
    assert_allclose(fitted.gamma_, expected.gamma_)
    assert_array_equal(fitted.support_, expected.support_)
    agree(fitted, expected, X)
    answers = predict_distributed(fitted, da.from_array(X, (chunk, 4)))
    assert_array_equal(answers.compute(), fitted.predict(X))


@pytest.mark.parametrize("tol", [1e-4, 1e-5, 1e-6])
def test_parts_lead_to_the_same_optimum(tol):
    # Features of parts are rounded otherwise, so the active rows differ, and with them where
    # within the tolerance the solver ends: scores of solutions that violate the optimality
    # conditions by less than tol differ by 20 times that here. The optimum is the same.
    X, y = blobs(20_000)
    expected = model(landmarks=100, tol=tol).fit(X, y)
    parts = da.from_array(X, (2_000, 4)), da.from_array(y, 2_000)
    with dask.config.set(scheduler="synchronous"):
        fitted = fit_distributed(model(landmarks=100, tol=tol), *parts)
    assert max(fitted.kkt_gap_.max(), expected.kkt_gap_.max()) <= tol
    agree(fitted, expected, X, atol=50 * tol)
    assert_allclose(fitted.dual_objective_, expected.dual_objective_, rtol=1e-6)


def test_weights_and_strings_and_frames():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, y = blobs(600)
    labels = np.array(["a", "b", "c", "d", "e"])[y]
    weight = np.random.default_rng(1).integers(0, 3, size=len(y)).astype(float)
    frame = pd.DataFrame(X, columns=list("pqrs"))
    Z = X[:50]
    expected = model(landmarks=Z).fit(frame, labels, sample_weight=weight)
    parts = dd.from_pandas(frame.assign(target=labels, weight=weight), npartitions=4)
    fitted = fit_distributed(
        model(landmarks=Z),
        parts[list("pqrs")],
        parts["target"],
        sample_weight=parts["weight"],
    )
    assert fitted.feature_names_in_.tolist() == list("pqrs")
    agree(fitted, expected, frame)
    answers = predict_distributed(fitted, parts[list("pqrs")]).compute()
    assert_array_equal(answers.to_numpy(), expected.predict(frame))


def test_known_unknowns():
    X, y = blobs(600)
    expected = model(unknown_label=2).fit(X, y)
    fitted = fit_distributed(
        model(unknown_label=2), da.from_array(X, (200, 4)), da.from_array(y, 200)
    )
    assert fitted.classes_.tolist() == [0, 1, 3, 4]
    assert fitted.n_known_unknowns_ == expected.n_known_unknowns_ == np.sum(y == 2)
    agree(fitted, expected, X)


def test_empty_parts_and_a_class_in_one_part_only():
    X, y = blobs(600)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    chunks = ((0, 500, 0, 100, 0),)
    expected = model().fit(X, y)
    fitted = fit_distributed(model(), da.from_array(X, (*chunks, (4,))), da.from_array(y, chunks))
    agree(fitted, expected, X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": OpenSetSVC()}, "with landmarks"),
        ({"model": model(landmarks=5000)}, "landmarks=5000, but X has only 300 samples"),
        ({"model": model(landmarks=np.zeros((5, 3)))}, "landmarks has 3 features, but X has 4"),
        ({"model": OneVsRestSVC(landmarks=5, kernel="linear")}, "kernel='linear'"),
        ({"X": np.zeros((300, 4))}, "not a Dask array or dataframe"),
        ({"X": da.zeros((300, 4), chunks=(100, 2))}, "split along its columns"),
        ({"X": da.zeros((300, 4), chunks=(150, 4))}, "X has 2 parts, y has 3"),
        ({"X": da.zeros((300, 4), chunks=((50, 150, 100), 4))}, r"Part \d of X has"),
        ({"X": da.full((300, 4), np.nan, chunks=(100, 4))}, "X contains nan in row 0"),
        ({"y": da.zeros(300, chunks=100)}, "(at least|needs).* (2|classes|one class)"),
    ],
)
def test_bad_input(change, message):
    X, y = blobs(300)
    arguments = {
        "model": model(),
        "X": da.from_array(X, (100, 4)),
        "y": da.from_array(y, 100),
    } | change
    if message.startswith("(at"):
        arguments["model"] = OneVsRestSVC(landmarks=5)
    with pytest.raises(ValueError, match=message):
        fit_distributed(arguments["model"], arguments["X"], arguments["y"])


def test_a_part_with_other_columns():
    pd = pytest.importorskip("pandas")
    delayed = dask.delayed
    X, y = blobs(300)
    good, bad = pd.DataFrame(X[:150]), pd.DataFrame(X[150:, :3])
    dd = pytest.importorskip("dask.dataframe")
    frames = dd.from_delayed([delayed(good), delayed(bad)], meta=good, verify_meta=False)
    labels = da.from_array(y, 150)
    with pytest.raises(ValueError, match="different numbers of columns"):
        fit_distributed(model(), frames, labels)


@pytest.mark.slow
def test_a_cluster_and_a_lost_worker():
    distributed = pytest.importorskip("distributed")
    X, y = blobs(20_000)
    settings = {"landmarks": 100, "tol": 1e-5}  # see test_parts_lead_to_the_same_optimum
    expected = model(**settings).fit(X, y)
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        parts = da.from_array(X, (2_000, 4)), da.from_array(y, 2_000)
        agree(fit_distributed(model(**settings), *parts), expected, X)
        address, pid = next(iter(client.run(os.getpid).items()))
        killed = []

        def kill():
            while not client.has_what([address])[address]:  # until it holds parts of the rows
                time.sleep(0.01)
            os.kill(pid, signal.SIGKILL)
            killed.append(time.monotonic())

        while client.has_what([address])[address]:  # of the fit before
            time.sleep(0.01)
        killer = threading.Thread(target=kill)
        killer.start()
        agree(fit_distributed(model(**settings), *parts), expected, X)
        ended = time.monotonic()
        killer.join()
        assert killed[0] < ended
