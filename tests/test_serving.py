"""The recipe of the page on serving: no warning per request, for any model."""

import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from openset import OpenSetSVC, make_pipeline
from openset.cli import app
from openset.persistence import save_model

PAGE = Path(__file__).resolve().parents[1] / "docs" / "serving.md"


class HTTPError(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Run serve.py of the page next to digits.skops; return its handler."""
    fastapi = ModuleType("fastapi")
    fastapi.HTTPException = HTTPError
    fastapi.FastAPI = type("FastAPI", (), {"post": lambda self, path: lambda handler: handler})
    monkeypatch.setitem(sys.modules, "fastapi", fastapi)
    monkeypatch.chdir(tmp_path)

    def start():
        (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.M)
        names = {}
        exec(compile(code, "serve.py", "exec"), names)
        return names["predict"]

    return start


@pytest.mark.parametrize("kind", ["frame", "array", "command"])
def test_lists_and_records_are_answered_without_a_warning(kind, serve, tmp_path):
    data = load_iris(as_frame=True)
    X, y = data.data, data.target
    model = make_pipeline(StandardScaler(), OpenSetSVC())
    if kind == "command":
        X.assign(target=y).to_csv(tmp_path / "iris.csv", index=False)
        arguments = ["fit", "iris.csv", "-t", "target", "-o", "digits.skops", "--turns", "0"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    else:
        save_model(model.fit(X if kind == "frame" else X.to_numpy(), y), "digits.skops")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predict = serve()
        rows = [*X[:2].to_numpy().tolist(), [50.0] * 4]
        answer = predict(rows)
        assert answer["answer"] == [0, 0, None]
        assert answer["known_score"][2] < 0
        if kind != "array":
            records = pd.DataFrame(rows, columns=X.columns)[X.columns[::-1]].to_dict("records")
            assert predict(records) == answer
        for bad in ([[1.0, 2.0]], [[np.nan] * 4]):
            with pytest.raises(HTTPError) as error:
                predict(bad)
            assert error.value.status == 422
