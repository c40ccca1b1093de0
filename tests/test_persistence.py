"""Model files: the same answers after loading, and nothing foreign, damaged or newer is loaded."""

import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import OneClassSVM

from openset import OSNN, WSVM, FixedBiasSVC, OpenSetSVC, __version__, all_estimators
from openset.calibration import CalibratedRejector
from openset.kernels import Kernel, TStudent
from openset.model_selection import OpenSetSearchCV
from openset.persistence import FORMAT, ModelFileError, load_model, read_card, save_model

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
