"""Methods in the user's own files: the class of the page on extensions runs in a study as it is."""

import doctest
from pathlib import Path

import pytest

from openset.study import Store, StoreError, Task, load_study, run_study, run_task, write_report
from openset.study import _runner as runner

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extend.md"
STUDY = """
datasets = ["make_four_gauss", "iris"]
methods = ["OpenSetSVC", "my.py:NearestMean"]
n_known = [2]
runs = 2
[search]
n_repeats = 1
[grids.OpenSetSVC]
gamma = [1.0]
"""


def _class_of_the_page():
    examples = doctest.DocTestParser().get_examples(PAGE.read_text("utf-8"))
    sources = [example.source for example in examples]
    (code,) = (source for source in sources if source.startswith("class NearestMean"))
    (imports,) = (s for s in sources if "OpenSetClassifier" in s and s.startswith("from"))
    return f"import numpy as np\n{imports}\n{code}"


@pytest.fixture
def write(tmp_path):
    def write(my=None, study=STUDY):
        (tmp_path / "my.py").write_text(_class_of_the_page() if my is None else my)
        (tmp_path / "some.toml").write_text(study)
        return tmp_path / "some.toml"

    return write


def test_the_class_of_the_page_in_a_study(write, tmp_path):
    pytest.importorskip("matplotlib")
    study = load_study(write())
    assert study.methods == ("OpenSetSVC", "NearestMean")
    with Store(tmp_path / "results.sqlite", create=True) as store:
        assert run_study(study, store, jobs=1) == {"done": 8, "left": 0}  # in another process
        page = write_report(store, tmp_path / "report", study=study)
    table = (page.parent / "tables" / "results-NA.csv").read_text()
    assert table.count("iris,2,NearestMean,NA,") == 1
    for diagram in ("control-NA.png", "pairs-NA.pdf"):
        assert (page.parent / "figures" / diagram).stat().st_size > 1000
    assert "NearestMean" in (page.parent / "figures" / "pairs-NA.svg").read_text()


def test_results_of_another_version_of_the_file_are_refused(write, tmp_path):
    study = load_study(write())
    task = Task("make_four_gauss", 2, 0, "NearestMean")
    with Store(tmp_path / "results.sqlite", create=True) as store:
        store.put(run_task(task, study))
        store.check(study)
        (tmp_path / "my.py").write_text(_class_of_the_page().replace("reach=2.0", "reach=1.0"))
        from openset.study import _study

        _study._load_function.cache_clear()
        with pytest.raises(StoreError, match=r"NearestMean .* file of the method"):
            store.check(load_study(tmp_path / "some.toml"))


def test_a_function_that_returns_an_estimator(write):
    my = """
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from openset import ThresholdRejector, make_pipeline


def scaled():
    return make_pipeline(StandardScaler(), ThresholdRejector(LogisticRegression()))
"""
    study = load_study(write(my, STUDY.replace("NearestMean", "scaled")))
    assert run_task(Task("iris", 2, 0, "scaled"), study)["error"] is None


def test_a_module_next_to_the_file(write, tmp_path):
    (tmp_path / "reaches_of_mine.py").write_text("REACH = 1.5")
    source = _class_of_the_page().replace("reach=2.0", "reach=REACH")
    study = load_study(write(f"from reaches_of_mine import REACH\n{source}"))
    assert run_task(Task("iris", 2, 0, "NearestMean"), study)["error"] is None


@pytest.mark.parametrize(
    ("my", "method", "message"),
    [
        (None, "absent.py:NearestMean", "there is no file"),
        (None, "my.py:Nearest", "has no class or function 'Nearest'"),
        ("1 / 0", "my.py:NearestMean", "cannot be run: ZeroDivisionError"),
        (
            "def NearestMean():\n    return 1 / 0",
            "my.py:NearestMean",
            "'NearestMean' cannot be made: ZeroDivisionError",
        ),
        ("class OSNN: pass", "my.py:OSNN", "another method is called 'OSNN'"),
        ("class NearestMean: pass", "my.py:NearestMean", "is NearestMean, no open-set estimator"),
        (
            "from sklearn.svm import SVC as NearestMean",
            "my.py:NearestMean",
            "is SVC, no open-set estimator: derive it .*, wrap a classifier in openset.Threshold",
        ),
        (
            "from openset import ThresholdRejector as NearestMean",
            "my.py:NearestMean",
            "cannot be made without arguments .*'estimator'.* give its parameters defaults",
        ),
        (
            "from openset import *\ndef NearestMean():\n    return OpenSetSearchCV(OpenSetSVC())",
            "my.py:NearestMean",
            r"'NearestMean' is a search, .* add its grid as \[grids.NearestMean\]",
        ),
    ],
)
def test_bad_methods(write, my, method, message):
    path = write(my, STUDY.replace("my.py:NearestMean", method))
    with pytest.raises(ValueError, match=f"some.toml: .*{message}"):
        load_study(path)


def test_a_method_without_a_grid(write):
    path = write(_class_of_the_page().replace("search_spec", "other"))
    with pytest.raises(ValueError, match="'NearestMean' has no grid: declare search_spec, or add"):
        load_study(path)
    path.write_text(path.read_text() + "[grids.NearestMean]\nreach = [1.0, 2.0]\n")
    load_study(path)


def test_a_number_of_classes_that_no_dataset_allows(write, tmp_path):
    study = load_study(write(study=STUDY.replace("[2]", "[2, 4]")))
    with Store(tmp_path / "results.sqlite", create=True) as store:
        with pytest.raises(ValueError, match=r"no dataset allows 4.*make_four_gauss 4, iris 3"):
            run_study(study, store)
        fewer = study.restrict(datasets=["iris"])  # the numbers are those of the other datasets
        fewer.check_numbers(runner.count_classes(fewer))
