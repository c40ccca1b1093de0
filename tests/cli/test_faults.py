"""Full disks, signals, bad model files: one line each, and nothing half-made stays."""

import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
import warnings
import zipfile

import pytest

from openset.persistence import load_model, read_card

from .conftest import blobs

COMMAND = [sys.executable, "-c", "from openset.cli import main; main()"]


def start(*arguments, **options):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def one_line(process, code, timeout=120):
    _, told = process.communicate(timeout=timeout)
    assert process.returncode == code, told
    lines = told.splitlines()
    assert len(lines) == 1, told
    assert lines[0].startswith("openset: ")
    return lines[0]


def _pickle(content):
    return pickle.dumps({"a": 1})


def _truncated(content):
    return content[: len(content) // 2]


def _corrupt(content):
    middle = len(content) // 3
    return content[:middle] + bytes(200) + content[middle + 200 :]


@pytest.mark.parametrize("spoil", [_pickle, _truncated, _corrupt, lambda _: b""])
@pytest.mark.parametrize("command", ["predict", "evaluate", "info"])
def test_damaged_model_files(fails, trained, tmp_path, command, spoil):
    model = tmp_path / "bad.skops"
    model.write_bytes(spoil(trained.model.read_bytes()))
    arguments = {
        "predict": (trained.train, "-o", tmp_path / "o.csv"),
        "evaluate": (trained.train, "-t", "kind"),
        "info": (),
    }
    if command == "info" and spoil is _corrupt:
        return  # the card may be whole still
    assert "bad.skops" in fails(command, model, *arguments[command])


def test_malicious_model_file(fails, trained, tmp_path):
    evidence = tmp_path.parent / f"{tmp_path.name}-evidence"
    model = tmp_path / "bad.skops"
    with zipfile.ZipFile(trained.model) as old, zipfile.ZipFile(model, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                steps = schema["content"]["content"]["steps"]["content"]
                steps[0]["content"][1] = {
                    "__class__": "Popen",
                    "__module__": "subprocess",
                    "__loader__": "ObjectNode",
                    "__id__": 7,
                    "content": {
                        "__class__": "str",
                        "__module__": "builtins",
                        "__loader__": "JsonNode",
                        "content": json.dumps(f"touch {evidence}"),
                        "is_json": True,
                    },
                }
                content = json.dumps(schema)
            new.writestr(name, content)
    told = fails("predict", model, trained.train, "-o", tmp_path / "o.csv")
    assert "refused: it asks for subprocess.Popen" in told
    assert not evidence.exists()


def _limited(n_bytes):
    """Files of this process cannot grow beyond the size: as if the disk were full."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


@pytest.mark.parametrize(
    "output",
    ["o.csv", *(pytest.param(f"o.{e}", marks=pytest.mark.slow) for e in ("parquet", "arrow"))],
)
def test_disk_full_in_predict(trained, tmp_path, output):
    blobs(2000).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / output).write_text("the old file")
    arguments = ("predict", trained.model, tmp_path / "t.csv", "-o", tmp_path / output)
    told = one_line(start(*arguments, preexec_fn=_limited(20_000)), 1)
    assert "File too large" in told
    assert output in told
    assert (tmp_path / output).read_text() == "the old file"
    assert {path.name for path in tmp_path.iterdir()} == {"t.csv", output}


def test_disk_full_in_fit(trained, tmp_path):
    (tmp_path / "m.skops").write_text("the old file")
    arguments = ("fit", trained.train, "-t", "kind", "-m", "osnn", "--turns", 0, "--jobs", 1)
    told = one_line(start(*arguments, "-o", tmp_path / "m.skops", preexec_fn=_limited(2000)), 1)
    assert "m.skops: File too large" in told
    assert (tmp_path / "m.skops").read_text() == "the old file"
    assert [path.name for path in tmp_path.iterdir()] == ["m.skops"]


def test_without_permission(trained, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    arguments = ("predict", trained.model, trained.train, "-o", tmp_path / "o.csv")
    assert "Permission denied" in one_line(start(*arguments), 1)


# A writer that waits after its first batch: the command is certainly in the middle of its work.
_SLOW_WRITER = """
import sys, time
import openset.tables._files as w
def slow(self, batch, write=w._TextWriter.write):
    write(self, batch)
    print("writing", flush=True)
    time.sleep(60)
w._TextWriter.write = slow
from openset.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_in_the_middle_of_predict(trained, tmp_path, number, code):
    arguments = ["predict", str(trained.model), str(trained.train), "-o", str(tmp_path / "o.csv")]
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOW_WRITER, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    assert len(list(tmp_path.iterdir())) == 1  # the temporary file
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == code
    assert told == ("openset: interrupted; nothing was written\n" if code == 130 else "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_interrupt_in_the_middle_of_a_real_predict(trained, tmp_path):
    blobs(200_000).to_csv(tmp_path / "t.csv", index=False)
    process = start("predict", trained.model, tmp_path / "t.csv", "-o", tmp_path / "o.csv")
    while process.poll() is None and len(list(tmp_path.iterdir())) == 1:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert one_line(process, 130) == "openset: interrupted; nothing was written"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_output_whose_encoding_lacks_a_letter(tmp_path):
    table = blobs(10).replace({"kind": {"a": "\u03b1"}})
    table.to_csv(tmp_path / "t.csv", index=False, encoding="utf-8")
    arguments = ["fit", "t.csv", "-t", "kind", "-m", "knn", "--turns", "0", "-o", "m.skops"]
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert r"\u03b1" in done.stdout


def test_started_in_the_background(trained, tmp_path):
    """Where SIGINT and SIGHUP are ignored, as nohup and & do it, the command goes on."""

    def ignore():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    arguments = ["predict", str(trained.model), str(trained.train), "-o", str(tmp_path / "o.csv")]
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOW_WRITER.replace("sleep(60)", "sleep(1)"), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=ignore,
    )
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert (tmp_path / "o.csv").exists()


_PHASES = {
    "fit": "fit t.csv -t kind --turns 1 -o out",
    "learn": "learn m.skops --data t.csv t.csv --rename a=z -o out",
    "calibrate": "calibrate m.skops t.csv -t kind -o out",
    "study": "study run s.toml --store out --jobs 1",
}


@pytest.mark.slow
@pytest.mark.parametrize("command", _PHASES)
def test_interrupt_in_every_phase(trained, tmp_path, command):
    """Ctrl-C goes to all processes; there is one line, and it says truly what was written."""
    tmp_path.joinpath("t.csv").write_bytes(blobs().to_csv(index=False).encode())
    tmp_path.joinpath("m.skops").write_bytes(trained.model.read_bytes())
    study = 'datasets = ["digits"]\nmethods = ["OSNN"]\nn_known = [3]\nruns = 1\n'
    tmp_path.joinpath("s.toml").write_text(study)
    words, output = _PHASES[command].split(), tmp_path / "out"
    begin = time.monotonic()
    assert start(*words, cwd=tmp_path).wait(120) == 0
    whole = time.monotonic() - begin
    for part in (0.3, 0.45, 0.6, 0.75, 0.9, 1.0):
        for found in tmp_path.glob("out*"):
            found.unlink()
        process = start(*words, cwd=tmp_path, start_new_session=True)
        time.sleep(part * whole)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert "Traceback" not in told
        last = told.splitlines()[-1:]
        if process.returncode == 0:
            assert output.exists()
            continue
        assert process.returncode == 130, told
        if command == "study":
            assert "stopped. Finished tasks" in last[0] or "nothing was written" in last[0]
        else:
            wrote = "out" if output.exists() else "nothing"
            assert last == [f"openset: interrupted; {wrote} was written"]


_KILLED = """
import os, pathlib, signal, sys
write = pathlib.Path.write_bytes
def half(self, data):
    write(self, bytes(data)[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.write_bytes = half
from openset.cli import main
main()
"""


@pytest.mark.slow
def test_the_old_model_survives_a_kill_while_the_new_one_is_written(run, trained, tmp_path):
    model = tmp_path / "m.skops"
    arguments = ["fit", trained.train, "-t", "kind", "-m", "osnn", "--turns", 0, "-o", model]
    assert run(*arguments).exit_code == 0
    before = model.read_bytes()
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, *map(str, arguments)], capture_output=True, timeout=300
    )
    assert killed.returncode == -signal.SIGKILL
    assert model.read_bytes() == before
    assert read_card(model)["method"] == "OSNN"


# Killed in the fit, just before or just after the new model takes the name of the old one.
_KILLED_AT = """
import os, signal, sys
import openset.evaluation
moment, replace = sys.argv.pop(1), os.replace
def kill(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
def replace_and_kill(source, target):
    if not str(target).endswith(".skops"):
        return replace(source, target)
    if moment == "after":
        replace(source, target)
    kill()
if moment == "learning":
    openset.evaluation.learn_decisions = kill
os.replace = replace_and_kill
from openset.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["learning", "writing", "before", "after"])
def test_a_model_survives_a_kill_while_it_learns(trained, tmp_path, moment):
    """The model is the old or the new one, and the decisions, which are only read, stay."""
    model, decisions = tmp_path / "m.skops", tmp_path / "decisions.csv"
    model.write_bytes(trained.model.read_bytes())
    told = "row,decision,label\n1,junk,\n2,class,b\n"
    decisions.write_text(told)
    arguments = ["learn", model, "--data", trained.train, trained.train, "--rename", "a=z"]
    arguments += ["--decisions", decisions, "-o", model]
    code = [_KILLED] if moment == "writing" else [_KILLED_AT, moment]
    killed = subprocess.run(
        [sys.executable, "-c", *code, *map(str, arguments)], capture_output=True, timeout=300
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert decisions.read_text() == told
    if moment == "after":
        assert "z" in load_model(model).classes_
    else:
        assert model.read_bytes() == trained.model.read_bytes()


def test_an_error_of_our_own_is_one_line(fails, trained, tmp_path, monkeypatch):
    def broken(path):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("openset.persistence.read_model", broken)
    arguments = ("predict", trained.model, trained.train, "-o", tmp_path / "o.csv")
    assert (
        fails(*arguments) == "openset: ZeroDivisionError: a bug (set OPENSET_DEBUG=1 to see where)"
    )


def test_deprecations_are_for_developers(run, trained, monkeypatch):
    class Both(UserWarning, DeprecationWarning):  # as some libraries have it
        pass

    card = read_card(trained.model)

    def warns(path):
        warnings.warn("old", Both, stacklevel=1)
        warnings.warn("look here", UserWarning, stacklevel=1)
        return card

    monkeypatch.setattr("openset.persistence.read_card", warns)
    result = run("info", trained.model)
    assert result.exit_code == 0
    assert result.stderr == "openset: warning: look here\n"


def test_progress_only_on_a_terminal(trained, tmp_path):
    arguments = ("predict", trained.model, trained.train, "-o", tmp_path / "o.csv", "--json")
    process = start(*arguments)
    told, quiet = process.communicate(timeout=120)
    assert quiet == ""
    assert json.loads(told)["rows"] == 160
    main, terminal = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=terminal, text=True
    )
    process.communicate(timeout=120)
    assert b"predict, percent [####" in os.read(main, 10_000)
    os.close(main)
    os.close(terminal)


@pytest.mark.parametrize(
    ("typed", "expected"), [("openset pre", "predict"), ("openset ", "evaluate")]
)
def test_completion(typed, expected):
    environment = {
        **os.environ,
        "_OPENSET_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": "1",
    }
    code = "import sys; sys.argv[0] = 'openset'; from openset.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert expected in result.stdout.split()
