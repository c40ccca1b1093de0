"""The promises of SECURITY.md about commands and pages; those about files are tested elsewhere.

Model files: tests/test_persistence.py. Tables and escape sequences: test_strangers.py. Writing:
tests/utils/test_files.py. Pages of a study: tests/study/test_report.py; of a review: test_loop.py.
"""

import re
import socket

import pandas as pd
import pytest

from .conftest import blobs

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def files(run, trained, tmp_path):
    """Copies of everything that a command reads, by name."""
    paths = {"data": tmp_path / "data.csv", "model": tmp_path / "model.skops"}
    paths["data"].write_bytes(trained.train.read_bytes())
    paths["model"].write_bytes(trained.model.read_bytes())
    paths["answers"] = tmp_path / "answers.csv"
    told = run("predict", paths["model"], paths["data"], "-o", paths["answers"])
    assert told.exit_code == 0, told.stderr
    paths["decisions"] = tmp_path / "decisions.csv"
    paths["decisions"].write_text("row,decision,label\n1,junk,\n")
    return paths


COMMANDS = {
    "fit": "fit data -t kind --turns 0 -o",
    "predict": "predict model data -o",
    "calibrate": "calibrate model data -t kind -o",
    "compare": "compare data -t kind -o",
    "export": "export model --onnx",
    "learn": "learn model --decisions decisions --data data data -o",
    "review": "review answers --data data --model model -o",
}
# A model file may take the place of the model that it was made from.
REPLACED = [("calibrate", "model"), ("learn", "model")]


def _words(command, files):
    return [files.get(word, word) for word in COMMANDS[command].split()]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (command, name)
        for command, line in COMMANDS.items()
        for name in ("data", "model", "answers", "decisions")
        if name in line.split() and (command, name) not in REPLACED
    ],
)
def test_no_command_replaces_its_input(command, name, files, fails, tmp_path):
    before = {key: path.read_bytes() for key, path in files.items()}
    link = tmp_path / f"link{files[name].suffix}"
    link.symlink_to(files[name])
    for output in (files[name], link):
        told = fails(*_words(command, files), output)
        assert re.search(r"cannot write .*: it is read by this command", told)
    assert {key: path.read_bytes() for key, path in files.items()} == before


@pytest.mark.parametrize("name", ["$_$", "$5 to $10", r"\$\frac{$ ", "_a", "$" * 15, "a\x1b[2J$^$"])
def test_names_are_no_formulas(name, run, tmp_path):
    table = blobs(20)
    table["kind"] = table["kind"].replace("a", name)
    table = table.rename(columns={"mass": name})
    table.to_parquet(tmp_path / "t.parquet")
    fit = ("fit", tmp_path / "t.parquet", "-t", "kind", "-m", "knn", "--turns", 0)
    assert run(*fit, "-o", tmp_path / "m.skops").exit_code == 0
    evaluate = ("evaluate", tmp_path / "m.skops", tmp_path / "t.parquet", "-t", "kind")
    told = run(*evaluate, "--figures", tmp_path / "figures")
    assert told.exit_code == 0, told.output
    compare = ("compare", tmp_path / "t.parquet", "-t", "kind", "--methods", "osnn,knn")
    told = run(*compare, "--repeats", 2, "--max-rows", 40, "-o", tmp_path / "page.html")
    assert told.exit_code == 0, told.output


def test_commands_contact_no_network(files, run, tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a command opened a connection")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    outputs = {"compare": "page.html", "review": "r.html", "export": "m.onnx", "predict": "o.csv"}
    more = {"compare": ("--methods", "osnn,evm", "--repeats", 2)}
    for command in COMMANDS:
        output = tmp_path / outputs.get(command, f"{command}.skops")
        told = run(*_words(command, files), output, *more.get(command, ()))
        assert told.exit_code == 0, (command, told.output)
    assert run("info", files["model"]).exit_code == 0
    assert run("evaluate", files["model"], files["data"], "-t", "kind").exit_code == 0


IMAGES = {
    "png": b"\x89PNG\r\n\x1a\n",
    "jpeg": b"\xff\xd8\xff\xe0",
    "gif": b"GIF89a",
    "webp": b"RIFF\0\0\0\0WEBP",
    "bmp": b"BM\x40\0\0\0\0\0\0\0",
}


@pytest.fixture
def review(files, tmp_path):
    """Write the table with the names of images; the words of a command that shows them."""

    def words(name):
        table = pd.read_csv(files["data"])
        table.assign(picture=["", name, *[""] * (len(table) - 2)]).to_csv(files["data"])
        given = ("--data", files["data"], "--model", files["model"], "--image", "picture")
        return ("review", files["answers"], *given, "-o", tmp_path / "r.html")

    return words


@pytest.mark.parametrize("kind", IMAGES)
def test_images_are_recognised_by_their_content(kind, review, run, tmp_path):
    tmp_path.joinpath("in").mkdir()
    tmp_path.joinpath("in", "picture.txt").write_bytes(IMAGES[kind])
    told = run(*review("in/../in/picture.txt"))
    assert told.exit_code == 0, told.output


OTHER = {
    "text": b"root:x:0:0:root:/root:/bin/bash\n",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    "html": b"<html><script>alert(1)</script></html>",
    "bitmap in words": b"BMW: 4 wheels",
    "empty": b"",
}


@pytest.mark.parametrize("kind", OTHER)
def test_only_images_are_embedded(kind, review, fails, tmp_path):
    tmp_path.joinpath("p.png").write_bytes(OTHER[kind])
    told = fails(*review("p.png"))
    assert "data row 2 names 'p.png', which is no PNG, JPEG, GIF, WebP or BMP image" in told


def test_images_outside_the_folder_are_refused(review, fails, tmp_path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "p.png"
    outside.write_bytes(IMAGES["png"])
    tmp_path.joinpath("link.png").symlink_to(outside)
    tmp_path.joinpath("folder").symlink_to(outside.parent)
    names = ["/etc/passwd", outside, f"../{outside.parent.name}/p.png", "link.png", "folder/p.png"]
    for name in names:
        told = fails(*review(name))
        assert f"data row 2 names {str(name)!r}" in told and "outside the folder" in told


def test_names_from_the_data_are_escaped_on_a_page(files, run, tmp_path):
    table = pd.read_csv(files["data"])
    table = table.rename(columns={"mass": f"mass {EVIL}", "note": f"note {EVIL}"})
    table["kind"] = table["kind"].replace("a", f"a {EVIL}")
    table.to_csv(tmp_path / f"{EVIL.replace('/', '')}.csv", index=False)
    page = tmp_path / "page.html"
    told = run(
        *("compare", tmp_path / f"{EVIL.replace('/', '')}.csv", "-t", "kind", "-o", page),
        *("--methods", "osnn,evm", "--repeats", 2),
    )
    assert told.exit_code == 0, told.output
    html = page.read_text()
    assert "<script" not in html and "&lt;script&gt;" in html
    assert not re.search(r"(src|href|url)\s*[=(]\s*[\"']?\s*(https?:)?//", html)
