import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from typer.testing import CliRunner

from openset import OSNN, OpenSetSVC
from openset.cli import app
from openset.persistence import save_model

runner = CliRunner()


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def fitted(iris):
    return make_pipeline(MinMaxScaler(), OpenSetSVC(gamma=4.0)).fit(*iris)


@pytest.fixture
def model(tmp_path, fitted):
    card = {"data": {"features": ["sl", "sw", "pl", "pw"]}}
    save_model(fitted, tmp_path / "iris.model", card)
    return tmp_path / "iris.model"


def test_exported_file_answers_as_the_model(model, fitted, iris, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    out = tmp_path / "iris.onnx"
    result = runner.invoke(app, ["export", str(model), "--onnx", str(out)])
    assert result.exit_code == 0, result.output
    assert "in this order: sl, sw, pl, pw\n" in result.output
    X = np.concatenate([iris[0], 3 * iris[0]])
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    label, scores = session.run(["label", "scores"], {"X": X})
    np.testing.assert_array_equal(label, fitted.predict(X))
    np.testing.assert_allclose(scores, fitted.decision_function(X), rtol=0, atol=1e-5)


def test_float32(model, fitted, iris, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    out = tmp_path / "iris.onnx"
    result = runner.invoke(app, ["export", str(model), "--onnx", str(out), "--float32"])
    assert "input X: float32" in result.output
    X = np.concatenate([iris[0], 3 * iris[0]]).astype(np.float32)
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    (label,) = session.run(["label"], {"X": X})
    np.testing.assert_array_equal(label, fitted.predict(X.astype(float)))


def test_json(model, tmp_path):
    out = tmp_path / "iris.onnx"
    result = runner.invoke(app, ["export", str(model), "--onnx", str(out), "--json"])
    assert json.loads(result.stdout) == {
        "onnx": str(out),
        "inputs": ["X"],
        "outputs": ["label", "scores", "known_score"],
        "estimator": "OpenSetSVC",
        "classes": ["setosa", "versicolor", "virginica"],
        "unknown_label": "unknown",
        "features": ["sl", "sw", "pl", "pw"],
    }


def _fails(model, out, message):
    result = runner.invoke(app, ["export", str(model), "--onnx", str(out)])
    assert result.exit_code == 1
    assert result.stderr.startswith("openset: ") and result.stderr.count("\n") == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_errors_are_one_line_and_the_old_file_survives(model, iris, tmp_path):
    out = tmp_path / "old.onnx"
    out.write_bytes(b"old")
    save_model(OSNN().fit(*iris), tmp_path / "osnn.model")
    (tmp_path / "broken.model").write_bytes(model.read_bytes()[:1000])
    before = {path.name for path in tmp_path.iterdir()}
    _fails(tmp_path / "osnn.model", out, "OSNN cannot be exported")
    _fails(tmp_path / "broken.model", out, "broken.model")
    _fails(tmp_path / "absent.model", out, "absent.model")
    _fails(model, model / "out.onnx", "cannot be created")
    _fails(model, tmp_path, "it is a folder")
    assert out.read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == before


def test_option_is_required(model):
    result = runner.invoke(app, ["export", str(model)])
    assert result.exit_code == 2
    assert "--onnx" in result.output


def test_without_the_extra_the_error_names_it(model, tmp_path):
    code = (
        "import sys; sys.modules['onnx'] = None; "
        f"sys.argv = ['openset', 'export', {str(model)!r}, '--onnx', {str(tmp_path / 'o')!r}]; "
        "from openset.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == 'openset: openset.export needs onnx; run: pip install "openset[onnx]"\n'
