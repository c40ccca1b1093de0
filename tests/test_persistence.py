"""Model files: the same answers after loading, and nothing foreign, damaged or newer is loaded."""

import json
import os
import pickle
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from io import BytesIO

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from openset import OSNN, WSVM, FixedBiasSVC, OpenSetSVC, __version__, all_estimators
from openset.calibration import CalibratedRejector
from openset.evt import ExtremeValueMachine
from openset.gaussian import OpenSetLDA
from openset.kernels import Kernel, TStudent
from openset.model_selection import OpenSetSearchCV, OpenSetSplit, get_scorer
from openset.persistence import (
    FORMAT,
    ModelFileError,
    _checks,
    load_model,
    read_card,
    save_model,
)
from openset.svm import OneVsSetMachine
from openset.wrappers import CascadeRejector, ThresholdRejector

from .fuzz import fuzz_models
from .fuzz.__main__ import run

X, codes = load_iris(return_X_y=True)
X, codes = X[::3], codes[::3]
y = np.array(["setosa", "versicolor", "virginica"])[codes]


def _estimators():
    for name, cls in all_estimators():
        if name == "ThresholdRejector":
            yield cls(LogisticRegression())
        elif name == "CascadeRejector":
            yield cls(OneClassSVM(), LogisticRegression())
        else:
            yield cls()


@pytest.fixture(scope="module")
def model():
    return make_pipeline(MinMaxScaler(), OpenSetSVC(gamma=2.0)).fit(X, y)


@pytest.fixture
def path(model, tmp_path):
    save_model(model, tmp_path / "iris.skops", {"note": "kept"})
    return tmp_path / "iris.skops"


@pytest.mark.parametrize("estimator", list(_estimators()), ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("labels", [y, codes], ids=["text", "numbers"])
def test_same_answers_after_loading(estimator, labels, tmp_path):
    model = make_pipeline(MinMaxScaler(), estimator).fit(X, labels)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    Z = np.concatenate([X, X + 3.0])
    np.testing.assert_array_equal(loaded.decision_function(Z), model.decision_function(Z))
    answers = loaded.predict(Z)
    np.testing.assert_array_equal(answers, model.predict(Z))
    assert answers.dtype == model.predict(Z).dtype


def test_kernel_objects_are_kept(tmp_path):
    model = OpenSetSVC(kernel=TStudent()).fit(X, y)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_wrapped_and_searched_models_are_kept(tmp_path):
    search = OpenSetSearchCV(OpenSetSVC(), {"gamma": [1.0, 4.0]}, n_repeats=1, random_state=0)
    for model in (CalibratedRejector(OpenSetSVC(), alpha=0.3, random_state=0), search):
        model.fit(X, y)
        save_model(model, tmp_path / "m.skops")
        loaded = load_model(tmp_path / "m.skops")
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_a_parameter_newer_than_the_file_has_its_default(tmp_path):
    path = tmp_path / "old.skops"
    save_model(OpenSetSVC(cache_size=5).fit(X, y), path)

    def older(data):
        schema = json.loads(data)
        del schema["content"]["content"]["cache_size"]
        return json.dumps(schema)

    _rewrite(path, "schema.json", older)
    assert load_model(path).cache_size == OpenSetSVC().cache_size


def test_the_stamp_is_not_replaced(model, tmp_path):
    save_model(model, tmp_path / "m.skops", {"format": "mine", "note": "kept"})
    card = read_card(tmp_path / "m.skops")
    assert (card["format"], card["note"]) == (FORMAT, "kept")


def test_a_card_that_is_not_json(model, tmp_path):
    with pytest.raises(TypeError, match=r"card must hold what JSON allows: .*ndarray.* tolist"):
        save_model(model, tmp_path / "m.skops", {"scores": np.arange(3)})
    assert not (tmp_path / "m.skops").exists()


def test_a_search_of_scikit_learn_is_saved_without_its_splitter(tmp_path):
    grid = {"lam": [0.1, 0.3]}
    scorer = get_scorer("normalized_accuracy")
    search = GridSearchCV(OpenSetSVC(), grid, scoring=scorer, cv=OpenSetSplit(2)).fit(X, y)
    with pytest.raises(ModelFileError, match=r"OpenSetSplit.* save the best_estimator_"):
        save_model(search, tmp_path / "m.skops")
    save_model(search.best_estimator_, tmp_path / "m.skops")
    same = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(same.predict(X), search.predict(X))


def test_card_and_stamp(path):
    card = read_card(path)
    assert card["note"] == "kept"
    assert card["format"] == FORMAT
    assert card["openset"] == __version__
    assert card["classes"] == ["setosa", "versicolor", "virginica"]
    assert card["unknown_label"] == "unknown"
    assert card["method"] == "OpenSetSVC"
    assert {"python", "numpy", "scikit-learn"} <= card["versions"].keys()


def _rewrite(path, member, change):
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content[member] = change(content[member])
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("model", "old"),
    [
        (FixedBiasSVC(), ("openset.svm._unbiased", "UnbiasedSVC")),
        (WSVM(), ("openset.evt._wsvm", "WeibullSVM")),
        (OSNN(), ("openset.neighbors._osnn", "OpenSetNearestNeighbors")),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_renamed_class_is_named(model, old, tmp_path):
    path, cls = tmp_path / "old.skops", type(model)
    save_model(model.fit(X, y), path)

    def rename(part):
        if isinstance(part, dict):
            part = {key: rename(value) for key, value in part.items()}
            if part.get("__class__") == cls.__name__:
                part |= {"__module__": old[0], "__class__": old[1]}
        elif isinstance(part, list):
            part = [rename(inner) for inner in part]
        return part

    _rewrite(path, "schema.json", lambda data: json.dumps(rename(json.loads(data))))
    message = f"class {old[1]}, which is now {cls.__name__}. Fit {cls.__name__} .* save it again"
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


def test_newer_format_is_refused(path):
    def newer(data):
        return json.dumps(json.loads(data) | {"format": FORMAT + 1, "openset": "9.9"})

    _rewrite(path, "openset.json", newer)
    with pytest.raises(ModelFileError, match=r"openset 9\.9 in format 2.*Update openset"):
        load_model(path)
    with pytest.raises(ModelFileError, match="Update openset"):
        read_card(path)


@pytest.mark.parametrize("card", [b"{}", b"[1]", b"not json", b"\xff\xfe"])
def test_card_without_stamp(path, card):
    _rewrite(path, "openset.json", lambda _: card)
    with pytest.raises(ModelFileError):
        load_model(path)


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.99])
def test_truncated(path, keep):
    content = path.read_bytes()
    path.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with pytest.raises(ModelFileError, match=r"damaged|no model"):
        load_model(path)


def test_flipped_bits_are_refused_or_harmless(path, model):
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for position in rng.integers(len(content), size=100):
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            loaded = load_model(path)
        except ModelFileError:
            refused += 1
        else:  # a time stamp or an attribute of the archive
            np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert refused > 50


class _Malicious:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return open, (self.target, "w")


def test_pickle_is_never_opened(tmp_path):
    evidence = tmp_path / "evidence"
    (tmp_path / "m.skops").write_bytes(pickle.dumps(_Malicious(str(evidence))))
    with pytest.raises(ModelFileError, match="no model file"):
        load_model(tmp_path / "m.skops")
    assert not evidence.exists()


def test_pickle_inside_the_archive_is_never_opened(path, tmp_path):
    evidence = tmp_path / "evidence"
    poison = np.empty(1, dtype=object)
    poison[0] = _Malicious(str(evidence))
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.endswith(".npy")]
    np.save(tmp_path / "poison.npy", poison, allow_pickle=True)
    data = (tmp_path / "poison.npy").read_bytes()
    for member in members:
        _rewrite(path, member, lambda _: data)
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(path)
    assert not evidence.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [("posix", "system"), ("builtins", "eval"), ("subprocess", "Popen"), ("openset.cli", "main")],
)
def test_foreign_type_is_refused(path, module, name):
    def foreign(data):
        schema = json.loads(data)
        steps = schema["content"]["content"]["steps"]["content"]
        steps[1]["content"][1] |= {"__module__": module, "__class__": name}
        return json.dumps(schema)

    _rewrite(path, "schema.json", foreign)
    with pytest.raises(ModelFileError, match=rf"refused: it asks for .*{module}\.{name}"):
        load_model(path)


def test_foreign_function_is_refused(path):
    def call(data):
        schema = json.loads(data)
        step = schema["content"]["content"]["steps"]["content"][1]["content"]
        step[1] = {
            "__class__": "system",
            "__module__": "posix",
            "__loader__": "FunctionNode",
            "__id__": 1,
            "content": {"module_path": "posix", "function": "system"},
        }
        return json.dumps(schema)

    _rewrite(path, "schema.json", call)
    with pytest.raises(ModelFileError, match="refused"):
        load_model(path)


def test_a_foreign_type_is_refused_before_anything_is_created(path, monkeypatch):
    def foreign(data):
        return data.decode().replace('"OpenSetSVC"', '"Popen"').replace("openset.svm", "subprocess")

    _rewrite(path, "schema.json", foreign)
    created = []
    monkeypatch.setattr("skops.io.load", lambda *_, **__: created.append(True))
    with pytest.raises(ModelFileError, match="refused"):
        load_model(path)
    assert not created


def test_what_follows_indices_in_compiled_code_is_no_part_of_a_model_file(tmp_path):
    for inner in (DecisionTreeClassifier(), KNeighborsClassifier(algorithm="kd_tree")):
        model = ThresholdRejector(inner).fit(X, y)
        with pytest.raises(ModelFileError, match=r"parts of type .*[tT]ree.* joblib.dump"):
            save_model(model, tmp_path / "m.skops")


@pytest.mark.parametrize(
    "model, named",
    [
        (ThresholdRejector(RandomForestClassifier(3)), "RandomForestClassifier"),
        (ThresholdRejector(HistGradientBoostingClassifier(max_iter=2)), "HistGradientBoosting"),
        (
            CascadeRejector(
                IsolationForest(n_estimators=3), make_pipeline(MinMaxScaler(), MLPClassifier())
            ),
            "IsolationForest, MLPClassifier",
        ),
        (ThresholdRejector(KNeighborsClassifier()), "KDTree .*Pass algorithm='brute'"),
        (
            CalibratedRejector(
                ThresholdRejector(make_pipeline(MinMaxScaler(), KNeighborsClassifier())), alpha=0.2
            ),
            "KDTree",
        ),
    ],
    ids=["forest", "boosting", "in a pipeline", "neighbours", "calibrated"],
)
def test_fit_says_what_cannot_be_saved(model, named, tmp_path):
    told = rf"save_model .*{named}.* joblib.dump .* runs any code"
    with pytest.warns(UserWarning, match=told) as warned:
        model.fit(X, y)
    if not isinstance(model, CalibratedRejector):  # which calls the fit that warns
        files = {w.filename for w in warned if "joblib" in str(w.message)}
        assert files == {__file__}
    with pytest.raises(ModelFileError, match="To keep it, use joblib"):
        save_model(model, tmp_path / "m.skops")
    joblib.dump(model, tmp_path / "m.joblib")  # which is what the message recommends
    same = joblib.load(tmp_path / "m.joblib")
    np.testing.assert_array_equal(same.predict(X), model.predict(X))


def test_fit_says_nothing_of_what_can_be_saved(tmp_path):
    neighbours = KNeighborsClassifier(algorithm="brute")
    for inner in (SVC(), neighbours, make_pipeline(MinMaxScaler(), LogisticRegression())):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = CascadeRejector(OneClassSVM(), inner).fit(X, y)
        save_model(model, tmp_path / "m.skops")


def test_arrays_of_a_wrapped_classifier_must_be_finite():
    model = ThresholdRejector(LogisticRegression()).fit(X, y)
    model.estimator_.coef_[1] = np.nan
    with pytest.raises(ValueError, match="coef_ has entries that are not finite"):
        _checks.check_model(model)


def test_a_damaged_scaler_raises_or_is_harmless(tmp_path):
    model = make_pipeline(MinMaxScaler(), OpenSetSVC()).fit(X, y)
    for value in (np.nan, np.inf, 1e300):
        model[0].scale_[1] = value
        save_model(model, tmp_path / "m.skops")
        try:
            scores = load_model(tmp_path / "m.skops").decision_function(X)
        except ValueError:  # of the estimator: X contains NaN or infinity
            continue
        assert np.isfinite(scores).all()


class _OwnKernel(Kernel):
    def value(self, s, out=None):
        return np.exp(-s, out=out)

    def inverse(self, t):
        return -np.log(t)


def test_what_nobody_could_load_is_not_saved(tmp_path):
    model = OpenSetSVC(kernel=_OwnKernel()).fit(X, y)
    with pytest.raises(ModelFileError, match="_OwnKernel"):
        save_model(model, tmp_path / "m.skops")
    assert list(tmp_path.iterdir()) == []


def test_bad_arguments(tmp_path, model):
    with pytest.raises(FileNotFoundError, match="no model file"):
        load_model(tmp_path / "absent.skops")
    with pytest.raises(ModelFileError, match="folder"):
        load_model(tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder"):
        save_model(model, tmp_path / "absent" / "m.skops")
    with pytest.raises(ValueError, match="not fitted"):
        save_model(OpenSetSVC(), tmp_path / "m.skops")
    with pytest.raises(TypeError, match="not an open-set estimator"):
        save_model(LogisticRegression().fit(X, y), tmp_path / "m.skops")
    (tmp_path / "other.zip").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(ModelFileError, match="not a model written by openset"):
        load_model(tmp_path / "other.zip")


def test_without_skops_the_remedy_is_named():
    code = (
        "import sys; sys.modules['skops'] = None\n"
        "from openset.persistence import load_model\n"
        "load_model('m.skops')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'model files need skops; run: pip install "openset[cli]"' in result.stderr


def _arrays(path):
    """The members that hold arrays, by attribute."""
    with zipfile.ZipFile(path) as archive:
        schema = json.loads(archive.read("schema.json"))
    attributes = schema["content"]["content"].items()
    return {name: value["file"] for name, value in attributes if value and "file" in value}


def _npy(array):
    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("model", "attribute", "change", "message"),
    [
        (OSNN(), "_X", lambda a: a[:-1], "_X has 49 instead of 50"),  # once read out of bounds
        (OSNN(), "_starts", lambda a: a + 100, "_starts does not increase"),
        (OSNN(), "_rows", lambda a: a + 1, "_rows is not a permutation"),
        (OpenSetSVC(), "gamma_", lambda a: a * np.nan, "gamma_ has 3 entries that are not finite"),
        (OpenSetSVC(), "gamma_", lambda a: a[:1], "gamma_ has 1 instead of 3"),
        (OpenSetSVC(), "support_vectors_", lambda a: a[:, :-1], "support_vectors_ has 3 instead"),
        (OpenSetSVC(), "dual_coef_", lambda a: a.astype("f4"), "dual_coef_ has dtype float32"),
        (OpenSetSVC(), "dual_coef_", lambda a: a + 1e300, "scores overflow"),
        (OpenSetSVC(), "intercept_", abs, "known_radius_ does not follow"),
        (OpenSetSVC(), "known_radius_", lambda a: a / 2, "known_radius_ does not follow"),
        (OpenSetSVC(), "support_", lambda a: a - 10**6, "support_ has entries below -1"),
        (OpenSetSVC(), "classes_", lambda a: a[::-1], "classes_ is not sorted"),
        (OpenSetSVC(), "classes_", lambda a: a[:2], "instead of 2"),
        (ExtremeValueMachine(), "n_extreme_", lambda a: a + 1, "n_extreme_ does not add up"),
        (WSVM(), "cap_dual_coef_", lambda a: a[:, 1:], "cap_dual_coef_"),
        (OpenSetLDA(), "_centers", lambda a: a - 1e300, "_centers is so large"),
        (OpenSetLDA(relative=True), "_spread", lambda a: a * 1e-300, "_spread is not positive"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_arrays_that_do_not_fit_together_are_refused(model, attribute, change, message, tmp_path):
    path = tmp_path / "m.skops"
    save_model(model.fit(X, y), path)
    member = _arrays(path)[attribute]
    _rewrite(path, member, lambda data: _npy(change(np.load(BytesIO(data)))))
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


@pytest.mark.parametrize("name", ["_n_support", "support_vectors_", "_dual_coef_"])
@pytest.mark.parametrize("detector", [True, False])
def test_a_wrapped_libsvm_with_short_arrays_is_refused(name, detector, tmp_path):
    # libsvm does not look at lengths: this once ended the process.
    cascade = CascadeRejector(OneClassSVM(), SVC()).fit(X, y)
    part = cascade.rejector_ if detector else cascade.estimator_
    setattr(part, name, getattr(part, name)[:-1])
    with pytest.raises(ValueError, match=type(part).__name__):
        _checks.check_model(cascade)


def test_attributes_that_replace_what_the_class_defines_are_refused(tmp_path):
    model = OpenSetSVC().fit(X, y)
    model.decide = np.ones(3)
    with pytest.raises(ModelFileError, match="decide is not an attribute of an instance"):
        save_model(model, tmp_path / "m.skops")


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("model", [OpenSetSVC(gamma=2.0), WSVM(), OneVsSetMachine()])
def test_models_of_sparse_data(model, form, tmp_path):
    model = clone(model).fit(form(X), y)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.decision_function(form(X)), model.decision_function(X))


@pytest.mark.parametrize("part", ["indptr", "indices"])
def test_sparse_indices_out_of_range_are_refused(part, tmp_path):
    path = tmp_path / "m.skops"
    save_model(OpenSetSVC().fit(sparse.csr_array(X), y), path)

    def damage(data):
        with np.load(BytesIO(data)) as archive:
            parts = {key: archive[key] for key in archive.files}
        parts[part][-1] += 10**6
        file = BytesIO()
        np.savez(file, **parts)
        return file.getvalue()

    _rewrite(path, _arrays(path)["support_vectors_"], damage)
    with pytest.raises(ModelFileError, match=r"support_vectors_|index pointer"):
        load_model(path)


def _bomb_one_array(path):
    member = _arrays(path)["support_vectors_"]
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            if name != member:
                archive.writestr(name, data)
        with archive.open(member, "w", force_zip64=True) as file:
            file.write(_npy(np.zeros(1)))
            for _ in range(60):
                file.write(bytes(2**20))


def _bomb_by_references(path):
    """A small array, to which the description refers thousands of times."""

    def repeat(data):
        schema = json.loads(data)
        content = schema["content"]["content"]
        for k in range(50):
            content[f"a{k}"] = content["support_vectors_"]
            types = schema["content"]["key_types"]["content"]
            types.append(types[0])
        return json.dumps(schema)

    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content[_arrays(path)["support_vectors_"]] = _npy(np.zeros((125, 1000)))
    content["schema.json"] = repeat(content["schema.json"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def _bomb_in_a_sparse_matrix(path):
    inner = BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("data.npy", "w", force_zip64=True) as file:
            for _ in range(60):
                file.write(bytes(2**20))
    _rewrite(path, _arrays(path)["support_vectors_"], lambda _: inner.getvalue())


@pytest.mark.parametrize("bomb", [_bomb_one_array, _bomb_by_references, _bomb_in_a_sparse_matrix])
def test_a_file_that_unpacks_to_far_more_is_refused(bomb, tmp_path, monkeypatch):
    assert _checks._MOST_BYTES <= 2**30
    monkeypatch.setattr(_checks, "_MOST_BYTES", 4 * 10**7)  # so that the test is quick
    path = tmp_path / "m.skops"
    save_model(OpenSetSVC().fit(sparse.csr_array(X) if "sparse" in bomb.__name__ else X, y), path)
    bomb(path)
    assert path.stat().st_size < 3e5
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="would unpack to"):
            load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 2e7
    finally:
        tracemalloc.stop()


def test_devices_and_fifos_are_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo.skops")
    for path in (tmp_path / "fifo.skops", "/dev/zero"):
        with pytest.raises(ModelFileError, match="device or a FIFO"):
            load_model(path)


def test_damaged_files_are_refused_or_harmless():
    # A few of the cases of `make fuzz`.
    tallies, failures = run({"models": fuzz_models.attack}, seed=0, minutes=10, cases=60)
    assert failures == 0
    assert sum(tally.measured.get("refused", 0) for tally in tallies.values()) > 20
