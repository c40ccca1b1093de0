"""The runner: resumes, goes on after failures, stops in time, keeps to the cores."""

from dataclasses import replace

import pytest

from openset.study import Store, StoreError, run_study, run_task
from openset.study import _runner as runner
from openset.study._runner import available_cores

BAD = {"OneVsRestSVC": {"gamma": [-1.0]}}


class SerialPool:
    """Tasks done on the spot, so that a test can count them, fail them and have them die."""

    done, deaths = [], {}

    def __init__(self, work, jobs):
        self._work, self._queue = work, []

    def capacity(self):
        return 2

    def submit(self, task):
        self._queue.append(task)

    def wait(self, seconds):
        task = self._queue.pop(0)
        if self.deaths.get(task, 0):
            self.deaths[task] -= 1
            return [(task, None)]
        self.done.append(task)
        return [(task, self._work(task))]

    def close(self):
        assert len(self._queue) < 2


@pytest.fixture
def serial(monkeypatch):
    monkeypatch.setattr(runner, "LocalPool", SerialPool)
    monkeypatch.setattr(SerialPool, "done", [])
    monkeypatch.setattr(SerialPool, "deaths", {})
    return SerialPool


def _tasks(study):
    return list(study.tasks(runner.count_classes(study)))


def test_everything_once_in_order(tiny, store, serial):
    assert run_study(tiny, store) == {"done": 6, "left": 0}
    assert serial.done == _tasks(tiny)
    assert run_study(tiny, store) == {"left": 0}
    assert len(serial.done) == 6


def test_a_run_goes_on_where_another_stopped(tiny, store, serial, tmp_path):
    tasks = _tasks(tiny)
    for task in tasks[:2] + tasks[4:5]:
        store.put(run_task(task, tiny))
    assert run_study(tiny, store)["done"] == 3
    assert serial.done == [*tasks[2:4], tasks[5]]
    with Store(tmp_path / "other.sqlite", create=True) as other:
        run_study(tiny, other)
        assert _comparable(other) == _comparable(store)


def _comparable(store):
    return [
        {name: value for name, value in row.items() if not name.startswith("seconds")}
        for row in store.rows()
    ]


def test_failures_are_recorded_and_done_again_on_demand(tiny, store, serial):
    bad = replace(tiny, grids=BAD)
    assert run_study(bad, store) == {"done": 3, "failed": 3, "left": 0}
    assert run_study(bad, store) == {"left": 0}  # not again by itself
    assert run_study(bad, store, retry=True) == {"failed": 3, "left": 0}
    assert len(store.rows()) == 6
    good = replace(tiny, methods=("OneVsRestSVC",))
    for row in store.rows():
        if row["status"] == "failed":
            assert "gamma" in row["error"]
    with pytest.raises(StoreError, match="another seed, search or grid"):
        run_study(good, store, retry=True)


def test_a_task_that_kills_its_process_twice_has_failed(tiny, store, serial):
    once, twice = _tasks(tiny)[:2]
    serial.deaths.update({once: 1, twice: 5})
    assert run_study(tiny, store) == {"done": 5, "failed": 1, "left": 0}
    assert store.tasks("failed") == {twice}
    assert serial.deaths[twice] == 3


def test_time_limit(tiny, store, serial):
    assert run_study(tiny, store, time_limit=0) == {"left": 6}
    assert serial.done == []
    assert run_study(tiny, store, time_limit=1000)["done"] == 6


@pytest.mark.parametrize("jobs", [0, 1000])
def test_never_more_processes_than_cores(tiny, store, jobs):
    with pytest.raises(ValueError, match=f"jobs={jobs} must be from 1 to {available_cores()}"):
        run_study(tiny, store, jobs=jobs)


def test_threads_inside_share_the_cores(tiny, monkeypatch):
    monkeypatch.setattr(runner, "available_cores", lambda: 8)
    made = []
    monkeypatch.setattr(runner, "LocalPool", lambda work, jobs: made.append((work, jobs)))
    for jobs in (None, 3, 8):
        runner._make_pool(tiny, None, jobs, None)
    assert [(jobs, work.keywords["threads"]) for work, jobs in made] == [(8, 1), (3, 2), (8, 1)]


def test_a_dataset_that_is_not_there(tiny, store, tmp_path):
    with pytest.raises(ValueError, match="no dataset 'yeats'"):
        run_study(replace(tiny, datasets=("yeats",)), store, data_home=tmp_path)


def test_processes(tiny, store, capfd):
    assert run_study(tiny, store, jobs=1, verbose=True)["done"] == 6
    assert "tiny: 6/6, 0 min left" in capfd.readouterr().err


def test_no_scheduler(tiny, store):
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at 'nonsense://x'"):
        run_study(tiny, store, scheduler="nonsense://x")


def test_without_the_extra(tiny, store, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "openset\[cluster\]"'):
        run_study(tiny, store, scheduler="tcp://127.0.0.1:1")
