"""Studies as files: what is read, and what is said of a file that is wrong."""

from dataclasses import replace
from pathlib import Path

import pytest

from openset import OpenSetSVC
from openset.study import MEASURES, Study, load_study

STUDIES = Path(__file__).resolve().parents[2] / "studies"
NINE = {
    "OpenSetSVC",
    "OneVsRestSVC",
    "MulticlassOneClassSVM",
    "MulticlassSVDD",
    "DecisionBoundaryCarving",
    "OneVsSetMachine",
    "WSVM",
    "PISVM",
    "ExtremeValueMachine",
}
GOOD = {
    "datasets": '["digits"]',
    "methods": '["OpenSetSVC"]',
    "n_known": "[3]",
    "runs": "2",
}


def _write(folder, extra="", **changes):
    lines = [f"{key} = {value}" for key, value in {**GOOD, **changes}.items() if value]
    path = folder / "some.toml"
    path.write_text("\n".join([*lines, extra]))
    return path


def test_defaults(tmp_path):
    study = load_study(_write(tmp_path))
    assert study == Study("some", ("digits",), ("OpenSetSVC",), (3,), 2)
    assert study.measures == tuple(MEASURES)


def test_search_and_grids_reach_the_search(tmp_path):
    extra = '[search]\nn_repeats = 2\nlevel = "class"\n[grids.OpenSetSVC]\nlam = [0.1, 0.2]'
    search = load_study(_write(tmp_path, extra)).make_search("OpenSetSVC", seed=5)
    assert (search.n_repeats, search.level, search.random_state) == (2, "class", 5)
    assert search.param_grid == {"lam": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": '["x"]'}, "no key 'dataset'; did you mean 'datasets'"),
        ({"search": '{preset = ["paper"]}'}, r"\[search\]: The 'preset' parameter"),
        ({"search": "{n_repeats = 0x" + 5000 * "f" + "}"}, "digits"),
        ({"runs": None}, "'runs' is missing"),
        ({"runs": '"2"'}, "runs = '2' must be of type int"),
        ({"runs": "true"}, "runs = True must be of type int"),
        ({"runs": "0"}, "runs = 0 must be 1 or more"),
        ({"runs": "9" * 18}, "runs = 9* must be 1 or more, and 1,000,000 at most"),
        ({"seed": f"0x{'f' * 5000}"}, "digits"),
        ({"seed": "0x8000000000000000"}, "seed = .* must be a number of 64 bits"),
        ({"name": '"../x"'}, r"name = '\.\./x' must be a name for files, not a path"),
        ({"name": '""'}, "name = '' must be a name"),
        ({"record": f'"{"a" * 5000}:f"'}, "too long"),
        ({"n_known": "3"}, "n_known = 3 must be a list of int"),
        ({"n_known": "[]"}, "at least one value"),
        ({"n_known": "[3, 3]"}, "none twice"),
        ({"n_known": "[1, 3]"}, "must be 2 or more"),
        ({"methods": '["OpenSetSVM"]'}, "no method 'OpenSetSVM'; did you mean 'OpenSetSVC'"),
        ({"methods": '["CascadeRejector"]'}, "no method 'CascadeRejector'"),
        ({"measures": '["NA", "OSFM"]'}, "no measure 'OSFM'; did you mean 'OSFMm"),
        ({"search": '{preset = "papper"}'}, r"\[search\].*'preset'.*'papper'"),
        ({"search": "{presett = 1}"}, r"no key of \[search\] 'presett'; did you mean 'preset'"),
        ({"search": "{n_repeats = 0}"}, r"\[search\].*n_repeats"),
        ({"grids": "{PISVM = {C = [1]}}"}, r"no method in \[grids\] 'PISVM'"),
        ({"grids": "{OpenSetSVC = {gama = [1]}}"}, "OpenSetSVC 'gama'; did you mean 'gamma'"),
        ({"grids": "{OpenSetSVC = {gamma = 1}}"}, "gamma = 1 must be a list"),
        ({"grids": "{OpenSetSVC = {gamma = [-1.0]}}"}, "'gamma' .* Got -1.0 instead"),
    ],
)
def test_bad_studies(tmp_path, changes, message):
    with pytest.raises(ValueError, match=f"some.toml: .*{message}"):
        load_study(_write(tmp_path, **changes))


def test_a_function_of_the_study_records_something(tmp_path):
    (tmp_path / "own.py").write_text("def count(result, X, y):\n    return {'rows': len(y)}\n")
    study = load_study(_write(tmp_path, record='"own.py:count"'))
    assert study.record == f"{tmp_path.resolve()}/own.py:count"
    assert study.recorder(None, [], [1, 2]) == {"rows": 2}
    for record, message in [
        ("absent.py:count", "there is no file"),
        ("count", "must be FILE.py:FUNCTION"),
        ("own.py:other", "has no function 'other'"),
    ]:
        with pytest.raises(ValueError, match=f"some.toml: record = .*{message}"):
            load_study(_write(tmp_path, record=f'"{record}"'))


def test_files_that_are_no_study(tmp_path):
    path = tmp_path / "some.toml"
    with pytest.raises(FileNotFoundError, match="no study"):
        load_study(path)
    for text, message in [("[" * 5000, "recursion"), ("9" * 5000, "4300 digits")]:
        with pytest.raises(ValueError, match=rf"is not TOML: .*{message}"):
            load_study(_write(tmp_path, seed=text))
    path.write_text("runs = = 2")
    with pytest.raises(ValueError, match="is not TOML"):
        load_study(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not TOML"):
        load_study(path)


def test_tasks_pair_the_methods_and_skip_datasets_with_too_few_classes():
    study = Study("s", ("a", "b"), ("m1", "m2"), (3, 6), runs=2)
    tasks = list(study.tasks({"a": 4, "b": 7}))
    assert tasks[:4] == [("a", 3, 0, "m1"), ("a", 3, 0, "m2"), ("a", 3, 1, "m1"), ("a", 3, 1, "m2")]
    assert {(t.dataset, t.n_known) for t in tasks} == {("a", 3), ("b", 3), ("b", 6)}
    assert len(set(tasks)) == len(tasks) == 12


def test_restrict():
    study = Study("s", ("a", "b"), ("m1", "m2"), (3, 6), runs=2)
    part = study.restrict(["b", "a"], n_known=[6])
    assert (part.datasets, part.methods, part.n_known) == (("b", "a"), ("m1", "m2"), (6,))
    with pytest.raises(ValueError, match="datasets: 'c' is not in the study; choose from a, b"):
        study.restrict(["c"])
    with pytest.raises(ValueError, match="n_known: 9 is not in the study"):
        study.restrict(n_known=[9])


def test_fingerprint_tells_searches_apart():
    study = Study("s", ("a",), ("OpenSetSVC",), (3,), 2)
    changes: list[dict] = [
        {},
        {"seed": 1},
        {"search": {"preset": "paper"}},
        {"search": {"n_repeats": 7}},
        {"grids": {"OpenSetSVC": {"C": [1]}}},
    ]
    prints = [replace(study, **change).fingerprint("OpenSetSVC") for change in changes]
    assert len(set(prints)) == 5
    # Neither the rest of the plan nor the other methods matter.
    other = replace(study, datasets=("b",), methods=("OpenSetSVC", "OSNN"), n_known=(6,))
    assert other.fingerprint("OpenSetSVC") == prints[0] != other.fingerprint("OSNN")
    six = replace(study, search={"n_repeats": 6, "preset": "default", "level": "model"})
    assert six.fingerprint("OpenSetSVC") == prints[0]


def test_a_fingerprint_covers_the_rule_for_ties_and_the_simulation(monkeypatch):
    study = Study("s", ("a",), ("OpenSetSVC",), (3,), 2, search={"preset": "paper"})
    before = study.fingerprint("OpenSetSVC")
    plan = study.make_search("OpenSetSVC").describe()
    assert (plan["scoring"], plan["test_size"], plan["n_known"]) == ("accuracy", 0.2, "K // 2 + 1")
    spec = OpenSetSVC.search_spec
    other = {name: values[::-1] for name, values in plan["grid"].items()}
    monkeypatch.setattr(OpenSetSVC, "search_spec", replace(spec, grids={"paper": other}))
    assert study.fingerprint("OpenSetSVC") != before


def test_a_fingerprint_covers_the_grid_that_a_preset_stands_for(monkeypatch):
    study = Study("s", ("a",), ("OpenSetSVC",), (3,), 2)
    before = study.fingerprint("OpenSetSVC")
    spec = OpenSetSVC.search_spec
    grids = {**spec.grids, "default": {**spec.grids["default"], "C": [1.0]}}
    monkeypatch.setattr(OpenSetSVC, "search_spec", replace(spec, grids=grids))
    assert study.fingerprint("OpenSetSVC") != before


@pytest.mark.parametrize("name", ["paper", "paper_closed", "better", "quick"])
def test_the_studies_of_the_repository(name):
    study = load_study(STUDIES / f"{name}.toml")
    rivals = {"OpenSetLDA", "OpenSetCentroids", "OpenSetKNN", "SIMCA", "ViM", "ThresholdSVC"}
    more = {"better": rivals, "paper": {"ThresholdSVC"}}
    assert set(study.methods) == NINE | more.get(name, set())
    assert study.measures == tuple(MEASURES)


def test_the_study_of_the_paper():
    study = load_study(STUDIES / "paper.toml")
    assert (study.n_known, study.runs) == ((3, 6, 9, 12), 10)
    gammas = [2.0**k for k in range(15, -16, -2)]
    fractions = [k / 20 for k in range(20)]
    for method, grid in {
        "OpenSetSVC": {"gamma": gammas, "lam": fractions[::-1]},
        "OneVsRestSVC": {"gamma": gammas},
        "WSVM": {"gamma": gammas, "delta_R": [2.0**k for k in range(-7, 1)]},
        "PISVM": {"gamma": gammas, "threshold": fractions},
    }.items():
        search = study.make_search(method)
        assert search.preset == "paper"
        assert search.estimator.C == 1.0
        searched = search.describe()["grid"]
        assert searched.keys() == grid.keys()
        for name, values in grid.items():
            assert searched[name] == pytest.approx(values)


def test_a_record_that_cannot_be_run(tmp_path):
    (tmp_path / "own.py").write_text("raise KeyError('x')\n")
    with pytest.raises(ValueError, match=r"some.toml: record = .* cannot be run: KeyError: 'x'"):
        load_study(_write(tmp_path, record='"own.py:count"'))


def test_a_grid_with_endless_settings_is_read(tmp_path):
    values = list(range(1, 2000))
    grid = f"[grids.OneVsRestSVC]\nC = {values}\ngamma = {values}\nmax_iter = {values}"
    study = load_study(_write(tmp_path, grid, methods='["OneVsRestSVC"]'))
    assert len(study.grids["OneVsRestSVC"]["C"]) == 1999
