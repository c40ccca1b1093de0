"""Model files of earlier versions load, and answer as they did."""

import re
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from scipy import sparse

from openset.persistence import load_model

from .models import PROBES, RECORDS, TEXTS, X

FOLDER = Path(__file__).with_name("fixtures_0_1_0")
ANSWERS = np.load(FOLDER / "answers.npz")
SAMPLES = {
    "text": TEXTS,
    "text-records": RECORDS,
    "decomposition-nmf": X,
    "wrappers-sparse": sparse.csr_array(X),
}

# Version 0.1.0 formed the scores of W-SVM and PI-SVM in float32, this one in float64; they differ
# by at most the error of a float32 score that docs/faq.md states (measured: 2.0e-6).
SCORED_IN_FLOAT32 = {"evt-PISVM", "evt-WSVM", "evt-csr"}
FLOAT32 = 3e-5


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.skops")), ids=lambda path: path.stem)
def test_files_of_version_0_1_0(path):
    samples = SAMPLES.get(path.stem, SAMPLES.get(path.stem.split("-")[0], PROBES))
    model = load_model(path)
    scores = ANSWERS[f"{path.stem}.scores"]
    # The processor may choose another matrix product than the one that wrote the file.
    error = FLOAT32 if path.stem in SCORED_IN_FLOAT32 else 1e-6
    np.testing.assert_allclose(model.decision_function(samples), scores, rtol=1e-6, atol=error)
    answers = ANSWERS[f"{path.stem}.answers"]
    clear = np.abs(scores.max(axis=1)) > 1e-4
    np.testing.assert_array_equal(model.predict(samples)[clear], answers[clear])


def test_a_type_is_found_where_it_is_now(tmp_path):
    # The description of a file written before a class was moved to another module.
    path = tmp_path / "moved.skops"
    with ZipFile(FOLDER / "evt-ExtremeValueMachine.skops") as old, ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "schema.json":
                assert b'"openset.evt._' in data
                data = re.sub(rb'"openset\.evt\.\w+"', b'"openset.elsewhere"', data)
            new.writestr(name, data)
    scores = ANSWERS["evt-ExtremeValueMachine.scores"]
    np.testing.assert_allclose(load_model(path).decision_function(PROBES), scores, atol=1e-6)
