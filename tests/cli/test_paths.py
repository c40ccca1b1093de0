"""No command writes onto anything else that it reads or writes, under whatever name."""

import inspect
import os
from itertools import permutations
from pathlib import Path
from typing import get_type_hints

import pandas as pd
import pytest

from openset.cli import app
from openset.cli._options import Role, guard

from .conftest import blobs

STUDY = 'datasets = ["digits"]\nmethods = ["OSNN"]\nn_known = [3]\nruns = 1\nname = "s"\n'


def _commands():
    groups = [("", app), *((f"{g.name} ", g.typer_instance) for g in app.registered_groups)]
    for prefix, group in groups:
        for command in group.registered_commands:
            function = inspect.unwrap(command.callback)
            yield prefix + (command.name or function.__name__), function


COMMANDS = dict(_commands())


def _roles(command):
    """Role by name of each parameter that holds paths; None where it is not declared."""
    found = {}
    for name, hint in get_type_hints(COMMANDS[command], include_extras=True).items():
        if name != "return" and "Path" in str(hint):
            roles = [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Role)]
            found[name] = roles[0] if roles else None
    return found


def test_every_command_declares_what_it_reads_and_writes():
    undeclared = {(c, n) for c in COMMANDS for n, role in _roles(c).items() if role is None}
    # Datasets are found by name in the data home; a store is never laid onto a Parquet file.
    assert undeclared == {(c, "data_home") for c in ("datasets", "study run", "study retry")}
    writing = {c for c in COMMANDS if any(r and r.kind == "writes" for r in _roles(c).values())}
    assert set(COMMANDS) - writing == {"info", "datasets", "demo", "traffic", "warm"}


PAIRS = [
    (command, output, other)
    for command in COMMANDS
    for output, other in permutations(_roles(command), 2)
    if None not in (_roles(command)[output], _roles(command)[other])
    and _roles(command)[output].kind == "writes"
    and not _roles(command)[other].patterns  # the other way round
]
READ = [
    (command, output, other)
    for command, output, other in PAIRS
    if other != "study" and _roles(command)[other].kind != "writes"
]


def _aliases(folder, path):
    """Other names of a file."""
    hard, soft = folder / "hard", folder / "soft"
    os.link(path, hard)
    soft.symlink_to(path)
    chain = folder / "chain"
    chain.symlink_to(soft)
    (folder / "twin").symlink_to(path.parent)
    return {
        "same": path,
        "hard link": hard,
        "link": chain,
        "linked folder": folder / "twin" / path.name,
        "relative": Path(os.path.relpath(path)),
        "dots": path.parent / ".." / path.parent.name / path.name,
    }


@pytest.mark.parametrize(("command", "output", "other"), PAIRS)
def test_no_output_is_another_file_of_the_command(command, output, other, tmp_path):
    roles, arguments = _roles(command), {}
    for name in roles:
        arguments[name] = tmp_path / name
        arguments[name].write_text(STUDY)
    if roles[output].patterns:  # a folder, of which some files are written
        pattern = roles[output].patterns[0]
        arguments[output].unlink()
        arguments[output].mkdir()
        arguments[output].joinpath(pattern.replace("*", "x")).symlink_to(arguments[other])
        aliases = {"link in the folder": arguments[output]}
    else:
        (tmp_path / "names").mkdir()
        aliases = _aliases(tmp_path / "names", arguments[other])
    for what, alias in aliases.items():
        given = arguments | {output: alias}
        if roles[other].kind == "replaces" and not roles[output].patterns:
            with guard(COMMANDS[command], given):
                continue
        with pytest.raises(FileExistsError, match=r"cannot write .*; choose another name"):
            guard(COMMANDS[command], given)
            pytest.fail(what)


@pytest.mark.parametrize(("command", "output", "other"), READ)
def test_no_output_lies_in_a_folder_that_is_read(command, output, other, tmp_path):
    roles = _roles(command)
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "parts").mkdir()
    elsewhere.mkdir()
    arguments = {name: tmp_path / name for name in roles}
    if "study" in roles:
        arguments["study"].write_text(STUDY)
    arguments[other] = tmp_path / "parts"
    part = tmp_path / "parts" / "1.parquet"
    part.write_text("")
    (elsewhere / "2.parquet").write_text("")
    (tmp_path / "parts" / "2.parquet").symlink_to(elsewhere / "2.parquet")
    os.link(part, elsewhere / "hard")
    names = [part, tmp_path / "parts" / "new", tmp_path / "parts" / "new" / "deeper"]
    if not roles[output].patterns:
        names += [elsewhere / "2.parquet", elsewhere / "hard"]
    for name in names:
        with pytest.raises(FileExistsError, match=r"cannot write .* belongs to"):
            guard(COMMANDS[command], arguments | {output: name})
    with guard(COMMANDS[command], arguments | {output: elsewhere / "new"}):
        pass


@pytest.fixture
def parts(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(2):
        blobs(20, seed=k).to_parquet(folder / f"{k}.parquet", index=False)
    return folder


def test_the_parts_of_a_folder_are_not_replaced(fails, trained, parts):
    before = {path: path.read_bytes() for path in parts.iterdir()}
    for output in (parts / "0.parquet", parts / "answers.parquet", parts):
        assert "cannot write" in fails("predict", trained.model, parts, "-o", output)
        assert "cannot write" in fails("fit", parts, "-t", "kind", "--turns", 0, "-o", output)
    assert {path: path.read_bytes() for path in parts.iterdir()} == before


def test_answers_do_not_replace_the_monitor(run, fails, trained, tmp_path):
    state = tmp_path / "state.csv"
    assert run("monitor", state, "--rate", 0.1).exit_code == 0
    before = state.read_bytes()
    told = fails("predict", trained.model, trained.train, "-o", state, "--monitor", state)
    assert "cannot write" in told and "writes, too" in told
    told = fails("predict", trained.model, trained.train, "-o", "a.csv", "--monitor", trained.model)
    assert "cannot write" in told
    assert state.read_bytes() == before


def test_a_figure_does_not_replace_what_it_measures(fails, trained, tmp_path):
    table = tmp_path / "oscr.png"
    table.symlink_to(trained.train)
    told = fails("evaluate", trained.model, trained.train, "-t", "kind", "--figures", tmp_path)
    assert f"cannot write {table}" in told
    assert pd.read_csv(trained.train).shape == blobs().shape


def test_a_review_page_does_not_replace_an_image(fails, run, trained, tmp_path):
    table, answers = tmp_path / "t.csv", tmp_path / "a.csv"
    blobs(20, seed=1, classes="xa").assign(picture="p.png").to_csv(table, index=False)
    (tmp_path / "p.png").write_bytes(b"\x89PNG")
    assert run("predict", trained.model, table, "-o", answers).exit_code == 0
    review = ("review", answers, "--data", table, "--model", trained.model, "--image", "picture")
    assert "it is read by this command" in fails(*review, "-o", tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes() == b"\x89PNG"


def test_the_default_store_is_no_output(fails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(STUDY)
    Path("results").mkdir()
    Path("results/s.sqlite").write_text("")
    Path("results/s.sqlite-wal").write_text("")
    for output in ("results/s.sqlite", "results/s.sqlite-wal", "s.toml"):
        assert f"cannot write {output}" in fails("study", "export", "s.toml", output)


def test_the_file_behind_a_standard_stream_counts(trained, tmp_path):
    from .test_faults import start

    table = tmp_path / "t.csv"
    table.write_bytes(trained.train.read_bytes())
    with open(table) as file:
        process = start("predict", trained.model, "-", "-o", table, stdin=file)
        assert "cannot write" in process.communicate(timeout=120)[1]
    assert table.read_bytes() == trained.train.read_bytes()
