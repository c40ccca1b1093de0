"""The registry of methods, against the package and the paper."""

import re
from importlib import import_module

import numpy as np
import pytest
from sklearn.datasets import load_iris

import openset
from openset.base import OpenSetClassifier
from openset.utils import method_names, method_table

# The paper's abbreviations of the methods in its table.
IN_THE_PAPER = {
    "mcsvm": "OneVsRestSVC",
    "mcocsvm": "MulticlassOneClassSVM",
    "mcsvdd": "MulticlassSVDD",
    "mcsvmdbc": "DecisionBoundaryCarving",
    "svm1vs": "OneVsSetMachine",
    "wsvm": "WSVM",
    "pisvm": "PISVM",
    "evm": "ExtremeValueMachine",
    "ossvm": "OpenSetSVC",
}


def test_all_estimators_are_all():
    public = {
        (name, value)
        for room in ("svm", "evt", "neighbors", "gaussian", "wrappers")
        for name, value in vars(import_module(f"openset.{room}")).items()
        if isinstance(value, type)
        and issubclass(value, OpenSetClassifier)
        and hasattr(value, "traits")
    }
    found = openset.all_estimators()
    assert set(found) == public
    assert [name for name, _ in found] == sorted(name for name, _ in public)
    for name, estimator in found:
        assert getattr(openset, name) is estimator
        assert estimator.__name__ == name


def test_names_on_the_command_line():
    named = method_names()
    wrappers = {"CascadeRejector", "ThresholdRejector"}
    assert {cls.__name__ for cls in named.values()} == set(
        dict(openset.all_estimators())
    ) - wrappers
    assert {row.command: row.estimator for row in method_table() if row.command} == {
        name: cls.__name__ for name, cls in named.items()
    }
    for name in named:
        assert name == name.lower() and " " not in name


def test_every_estimator_has_a_row_and_a_reference():
    rows = {row.estimator: row for row in method_table()}
    assert list(rows) == [name for name, _ in openset.all_estimators()]
    assert len({row.method for row in rows.values()}) == len(rows)
    for name, estimator in openset.all_estimators():
        assert "Examples\n" in estimator.__doc__ and ">>> " in estimator.__doc__, name
        assert "References\n" in estimator.__doc__, name


def test_the_table_is_that_of_the_paper(shared_dir):
    text = (shared_dir / "paper.tex").read_text(encoding="utf-8")
    table = text[text.index(r"\newcommand{\tableBaselinesSummary}") :]
    table = table[table.index(r"\tablemiddleline") : table.index(r"\tablebottomline")]
    paper = {}
    for line in table.splitlines()[1:]:
        cells = line.split("&")
        if len(cells) == 6:
            (key,) = re.findall(r"\\glstext\{(\w+)\}", cells[0])
            paper[key] = [r"\checkmark" in cell for cell in cells[2:]]
    assert set(paper) == set(IN_THE_PAPER)
    rows = {row.estimator: row for row in method_table()}
    for key, estimator in IN_THE_PAPER.items():
        row = rows[estimator]
        ours = [row.kernel == "rbf", row.extreme_value, row.one_class, row.bounded]
        assert ours == paper[key], estimator


def test_footnotes_where_the_exact_condition_is_finer():
    rows = {row.estimator: row for row in method_table()}
    unconditional = {"MulticlassOneClassSVM", "MulticlassSVDD", "OneVsSetMachine", "SIMCA"}
    assert {name for name, row in rows.items() if not row.footnote} == unconditional


@pytest.mark.parametrize("gamma", [1e-3, 0.3, 30.0])
def test_what_holds_without_a_footnote_holds_for_every_fit(gamma):
    X, y = load_iris(return_X_y=True)
    for row in method_table():
        if not row.footnote:
            model = getattr(openset, row.estimator)()
            if "gamma" in model.get_params():
                model.set_params(gamma=gamma)
            assert np.all(model.fit(X, y).bounded_ == row.bounded), row.estimator


def test_names_on_the_command_line_are_unique_and_only_wrappers_have_none():
    rows = method_table()
    commands = [row.command for row in rows if row.command]
    assert len(set(commands)) == len(commands)
    without = {row.estimator for row in rows if not row.command}
    assert without == {"CascadeRejector", "ThresholdRejector"}
    assert {row.estimator: row.command for row in rows}["OpenSetSVC"] == "ossvm"
