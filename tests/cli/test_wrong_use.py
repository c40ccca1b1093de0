"""One wrong use of every option of every command: the message names the option and the value."""

import re
from pathlib import Path

import pytest
import typer

import openset.cli
from openset.cli import app

from .conftest import blobs

# What a command needs; {file} is made by the fixture `files`, {x...} does not exist.
NEEDS = {
    "fit": "{table} -t kind -o {x.skops}",
    "calibrate": "{model} {new} -t kind -o {x.skops}",
    "predict": "{model} {new} -o {x.csv}",
    "evaluate": "{model} {new} -t kind",
    "info": "{model}",
    "monitor": "{x.monitor}",
    "review": "{answers} --data {new} --model {model} -o {x.html}",
    "learn": "{model} --data {table} {new} -o {x.skops} --remove a",
    "traffic": "{model} {new}",
    "adapt": "{model} {new} --data {table} -o {x.skops}",
    "compare": "{table} -t kind -o {x.html} --methods osnn --repeats 2",
    "export": "{model} --onnx {x.onnx}",
    "datasets": "",
    "warm": "",
    "study run": "{study} --store {x.sqlite} --datasets digits",
    "study retry": "{study} --store {results}",
    "study status": "{study} --store {results}",
    "study export": "{study} {x.csv} --store {results}",
    "study import": "{study} {x.csv} --store {results}",
    "study report": "{study} {x} --store {results}",
}
COLUMN = r"no column 'knid', .*did you mean .*'kind'"
OVERWRITE = r"cannot write .*: it is read by this command; choose another name"
JOBS = "--jobs.*0 threads are not possible; use 1 or more, or -1"
ENCODING = "unknown encoding 'utf-99'; try latin-1"
LEARNED = "--unknown: the model has learned 'a' as a class"
NO_CLASS = r"no class 'q'; there are \['a', 'b', 'c', 'd'\]"
# As newer and as older versions of typer say it.
AT_LEAST = "(should be greater than or equal to |is not in the range x>=)"
AT_MOST = "(should be less than or equal to |is not in the range 0<=x<=)"
NO_MODEL = "there is no model file .*nothing"
STUDY = {
    "--store": ("{folder}", "unable to open database file: make the file and its folder readable"),
    "--datasets": ("q", "'q' is not in the study; choose from digits, letter"),
    "--methods": ("q", "'q' is not in the study; choose from OSNN"),
    "--n-known": ("many", "--n-known 'many': give numbers or ratios"),
    "--time-limit": ("-1", f"--time-limit.*{AT_LEAST}0"),
}
WRONG = {
    "fit": {
        "DATA": ("{nothing}", "there is no file .*nothing"),
        "--target": ("knid", COLUMN),
        "--output": ("{table}", OVERWRITE),
        "--method": ("ossvn", "no such method: ossvn; did you mean ossvm"),
        "--known": ("a,q", f"--known: .*{NO_CLASS}"),
        "--unknown": ("q", f"--unknown: .*{NO_CLASS}"),
        "--features": ("knid", COLUMN),
        "--drop": ("knid", COLUMN),
        "--missing": ("skip", "--missing.*'skip' is not one of 'error', 'drop', 'median'"),
        "--scale": ("log", "--scale.*'log' is not one of 'minmax', 'unit', 'none'"),
        "--landmarks": ("0", f"--landmarks.*{AT_LEAST}1"),
        "--scheduler": ("there", "--scheduler needs --landmarks"),
        "--group": ("knid", COLUMN),
        "--calibration": ("1", f"--calibration.*{AT_MOST}0.9"),
        "--turns": ("-1", f"--turns.*{AT_LEAST}0"),
        "--search-rows": ("5", f"--search-rows.*{AT_LEAST}20"),
        "--seed": ("-1", f"--seed.*{AT_LEAST}0"),
        "--jobs": ("0", JOBS),
        "--encoding": ("utf-99", ENCODING),
        "--decimal": ("x", "--decimal.*'x' is not one of '.', ','"),
    },
    "calibrate": {
        "--unknown": ("a", LEARNED),
        "MODEL": ("{nothing}", NO_MODEL),
        "DATA": ("{nothing}", "there is no file .*nothing"),
        "--target": ("knid", COLUMN),
        "--output": ("{new}", OVERWRITE),
        "--alpha": ("2", f"--alpha.*{AT_MOST}1"),
        "--precision": ("1.5", f"--precision.*{AT_MOST}1"),
        "--costs": ("reject", "--costs 'reject' must be NAME=NUMBER"),
        "--confidence": (
            "0.9 --strangers 0.1",
            "--confidence 0.9 belongs to --precision or --alpha",
        ),
        "--strangers": ("0.1 --alpha 0.1", "--alpha, .* and --strangers exclude each other"),
        "--group": ("knid", COLUMN),
        "--aggregate": ("sum --group kind", "--aggregate.*'sum' is not one of"),
        "--within": ("knid", COLUMN),
        "--unknown-share": ("0.5", "--unknown-share 0.5 belongs to --precision or --costs"),
        "--traffic": ("{nothing} --precision 0.9", "there is no file .*nothing"),
        "--by": ("most", "--by.*'most' is not one of"),
        "--jobs": ("0", JOBS),
        "--encoding": ("utf-99", ENCODING),
        "--decimal": ("x", "--decimal.*'x' is not one of '.', ','"),
    },
    "predict": {
        "MODEL": ("{nothing}", NO_MODEL),
        "DATA": ("{nothing}", "there is no file .*nothing"),
        "--output": ("{new}", OVERWRITE),
        "--group": ("knid", COLUMN),
        "--scheduler": ("there", "--scheduler: no Dask scheduler answers at there"),
        "--monitor": ("{table}", "table.csv is damaged or is not the state of a monitor .*; start"),
        "--jobs": ("0", JOBS),
        "--encoding": ("utf-99", ENCODING),
        "--decimal": ("x", "--decimal.*'x' is not one of '.', ','"),
    },
    "evaluate": {
        "--unknown": ("a", LEARNED),
        "MODEL": ("{table}", "table.csv is damaged or no model file"),
        "DATA": ("{nothing}", "there is no file .*nothing"),
        "--target": ("knid", COLUMN),
        "--group": ("knid", COLUMN),
        "--figures": ("{table}", "the folder .*table.csv cannot be created"),
        "--jobs": ("many", "--jobs.*valid integer"),
        "--encoding": ("utf-99", ENCODING),
        "--decimal": ("x", "--decimal.*'x' is not one of '.', ','"),
    },
    "info": {"MODEL": ("{nothing}", NO_MODEL)},
    "monitor": {
        "FILE": ("{nothing}", "no monitor file .*nothing; give --rate or --reference to start one"),
        "--rate": ("2", f"--rate.*{AT_MOST}1"),
        "--reference": ("{new}", "no column 'known_score', which `openset predict` writes"),
        "--group": ("knid --reference {answers}", "no column .knid."),
        "--model": ("{model}", "--model and --data together .*; give both"),
        "--data": ("{nothing} --model {model}", "there is no file .*nothing"),
        "--test": ("mean", "--test.*'mean' is not one of 'rate', 'scores'"),
        "--alpha": ("7", f"--alpha.*{AT_MOST}1"),
        "--encoding": ("utf-99 --reference {new}", ENCODING),
        "--decimal": ("x", "--decimal.*'x' is not one of '.', ','"),
    },
    "review": {
        "ANSWERS": ("{new}", "no column 'prediction', which `openset predict` writes"),
        "--data": ("{table}", "200 rows, but the data have 160; answer the data again"),
        "--model": ("{nothing}", NO_MODEL),
        "--output": ("{answers}", OVERWRITE),
        "--text": ("knid", r"no column 'knid', .*did you mean .*'kind'"),
        "--image": ("kind", "--image kind: there is no file"),
        "--train": ("{nothing} --text kind", "there is no file .*nothing"),
        "--jobs": ("0", JOBS),
        "--encoding": ("utf-99", ENCODING),
        "--decimal": ("x", "--decimal.*'x' is not one of '.', ','"),
    },
    "learn": {
        "--unknown": ("a", LEARNED),
        "MODEL": ("{nothing}", NO_MODEL),
        "--data": ("{nothing} {new}", "there is no file .*nothing"),
        "--output": ("{new}", OVERWRITE),
        "--decisions": ("{table}", "no column 'row'; it must have row, decision, label"),
        "--target": ("knid", COLUMN),
        "--remove": ("q", "--remove q: the model has no class 'q'; it has a, b, c, d"),
        "--rename": ("q=z", "--rename q=z: the model has no class 'q'; it has a, b, c, d"),
        "--seed": ("-1", f"--seed.*{AT_LEAST}0"),
        "--jobs": ("0", JOBS),
        "--encoding": ("utf-99", ENCODING),
        "--decimal": ("x", "--decimal.*'x' is not one of '.', ','"),
    },
    "adapt": {
        "MODEL": ("{nothing}", NO_MODEL),
        "TABLE": ("{nothing}", "there is no file .*nothing"),
        "--data": ("{nothing}", "there is no file .*nothing"),
        "--output": ("{new}", OVERWRITE),
        "--target": ("knid", COLUMN),
        "--new-kinds": ("2", f"--new-kinds.*{AT_MOST}1"),
        "--confidence": ("7", f"--confidence.*{AT_MOST}1"),
        "--seed": ("-1", f"--seed.*{AT_LEAST}0"),
        "--jobs": ("0", JOBS),
        "--encoding": ("utf-99", ENCODING),
        "--decimal": ("x", "--decimal.*'x' is not one of '.', ','"),
    },
    "traffic": {
        "MODEL": ("{nothing}", NO_MODEL),
        "DATA": ("{nothing}", "there is no file .*nothing"),
        "--jobs": ("0", JOBS),
        "--encoding": ("utf-99", ENCODING),
        "--decimal": ("x", "--decimal.*'x' is not one of '.', ','"),
    },
    "compare": {
        "DATA": ("{nothing}", "there is no file .*nothing"),
        "--target": ("knid", COLUMN),
        "--output": ("{table}", OVERWRITE),
        "--methods": (",", "--methods: ',' names nothing"),
        "--repeats": ("1", f"--repeats.*{AT_LEAST}2"),
        "--minutes": ("0", f"--minutes.*{AT_LEAST}0.1"),
        "--max-rows": ("2", f"--max-rows.*{AT_LEAST}20"),
        "--unknown": ("q", f"--unknown: .*{NO_CLASS}"),
        "--features": ("knid", COLUMN),
        "--drop": ("knid", COLUMN),
        "--missing": ("skip", "--missing.*'skip' is not one of"),
        "--seed": ("-1", f"--seed.*{AT_LEAST}0"),
        "--jobs": ("0", JOBS),
        "--encoding": ("utf-99", ENCODING),
        "--decimal": ("x", "--decimal.*'x' is not one of '.', ','"),
    },
    "export": {"MODEL": ("{nothing}", NO_MODEL), "--onnx": ("{model}", OVERWRITE)},
    "datasets": {"--data-home": ("{nothing}", "--data-home: .*nothing.*which is not a folder")},
    "study run": {
        "STUDY": ("{nothing}", "there is no study '.*nothing'"),
        **STUDY,
        "--data-home": ("{nothing} --datasets letter", "nothing.*is not a folder"),
        "--jobs": ("0", "jobs=0 must be from 1 to"),
        "--scheduler": ("there", "no Dask scheduler answers at 'there'"),
    },
    "study retry": {"STUDY": ("{nothing}", "there is no study '.*nothing'"), **STUDY},
    "study status": {
        "STUDY": ("{table}", "table.csv"),
        "--store": ("{nothing}", "there are no results at .*nothing; run the study first"),
    },
    "study export": {
        "STUDY": ("{nothing}", "there is no study '.*nothing'"),
        "CSV": ("{nothing}/x.csv", "there is no folder .*nothing; make it first"),
        "--store": ("{table}", "file is not a database: .*choose another store"),
    },
    "study import": {
        "STUDY": ("{nothing}", "there is no study '.*nothing'"),
        "CSV": ("{new}", "new.csv has no column 'dataset'; it must be an export of a study"),
        "--store": ("{table}", "file is not a database: .*choose another store"),
    },
    "study report": {
        "STUDY": ("{nothing}", "there is no study '.*nothing'"),
        "FOLDER": ("{table}", "table.csv.*(is a file|Not a directory)"),
        "--store": ("{table}", "file is not a database: .*choose another store"),
        "--reference": ("{nothing}", "nothing: No such file"),
    },
}
# The same code as `study run`, which nothing that failed leaves alone.
UNTESTED = {("study retry", name) for name in ("--data-home", "--jobs", "--scheduler")}


def commands(group=None, path=()):
    """Pairs of a name and a click command."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def parameters(command):
    """Names of arguments and of options that take a value."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield parameter.metavar or parameter.name.upper()
        elif not parameter.is_flag and parameter.name != "help":
            yield max(parameter.opts, key=len)


@pytest.fixture(scope="module")
def files(run, trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    blobs().to_csv(folder / "table.csv", index=False)
    blobs(classes="abcde", seed=1).to_csv(folder / "new.csv", index=False)
    run("predict", trained.model, folder / "new.csv", "-o", folder / "answers.csv")
    (folder / "study.toml").write_text(
        'runs = 1\nn_known = [2]\ndatasets = ["digits", "letter"]\nmethods = ["OSNN"]\n'
        'measures = ["NA"]\n'
    )
    done = ("--datasets", "digits", "--store", folder / "results.sqlite", "--jobs", 1)
    assert run("study", "run", folder / "study.toml", *done).exit_code == 0
    named = {p.stem: p for p in folder.iterdir()} | {"model": trained.model, "folder": folder}
    return named | {"nothing": folder / "nothing"}


@pytest.mark.parametrize(
    ("command", "option"), [(c, o) for c, options in WRONG.items() for o in options]
)
def test_wrong_use(command, option, run, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def words(text):
        text = re.sub(r"{(x[.\w]*)}", lambda found: str(tmp_path / found[1]), text)
        return text.format(**files).split()

    value, message = WRONG[command][option]
    given = words(NEEDS[command])
    if not option.startswith("-"):
        order = [p for p in parameters(dict(commands())[command]) if not p.startswith("-")]
        given[order.index(option)] = words(value)[0]
    elif (given_as := {"--target": "-t", "--output": "-o"}.get(option, option)) in given:
        at = given.index(given_as) + 1
        given[at : at + len(words(value))] = words(value)
    else:
        given += [option, *words(value)]
    before = {path: path.read_bytes() for path in files.values() if path.is_file()}
    result = run(*command.split(), *given)
    assert result.exit_code in (1, 2), result.output
    told = " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stderr).split())
    assert re.search(message, told), told
    assert "Traceback" not in told
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "line",
    [
        "fit {table} -t kind -o {x.skops} -m ossvn",
        "fit {table} -t kind -o {x.skops} --scheduler there",
        "calibrate {model} {new} -t kind -o {x.skops} --alpha 0.1 --precision 0.9",
        "calibrate {model} {new} -t kind -o {x.skops} --costs reject",
        "calibrate {model} {new} -t kind -o {x.skops} --strangers 0.1 --per-class",
        "calibrate {model} {new} -t kind -o {x.skops} --per-class --by highest",
        "calibrate {model} {new} -t kind -o {x.skops} --aggregate mean",
        "predict {model} {new} -o {x.csv} --group kind --scheduler there",
        "monitor {x.monitor} --rate 0.1 --reference {answers}",
        "monitor {x.monitor} --rate 0.1 --group kind",
        "monitor {x.monitor} --rate 0.1 --test scores",
        "review {answers} --data {new} --model {model} -o {x.html} --train {table}",
        "learn {model} -o {x.skops}",
        "learn {model} -o {x.skops} --decisions {answers}",
        "learn {model} -o {x.skops} --rename a",
        "compare {table} -t kind -o {x.html} --methods osmn",
        "study status {study} --nothing",
        "study run {study} --store {x.sqlite} --n-known many",
    ],
)
def test_wrong_usage_exits_with_2(line, run, files, tmp_path):
    line = re.sub(r"{(x[.\w]*)}", lambda found: str(tmp_path / found[1]), line)
    result = run(*line.format(**files).split())
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", ["", "study", *(name for name, _ in commands())])
def test_flags_have_no_value_in_the_help(name, run):
    told = run(*name.split(), "--help").output
    assert "--help" in told and "<bool>" not in told


def test_no_command_is_missing():
    """Every function that a module of the folder offers as a command is in the app."""
    code = [path.read_text() for path in Path(openset.cli.__file__).parent.glob("_*.py")]
    offered = re.findall(r"^@reported\ndef (\w+)", "\n".join(code), re.MULTILINE)
    reached = {command.callback.__name__ for _, command in commands()}
    assert len(offered) > 15
    assert set(offered) <= reached
    assert set(NEEDS) == {name for name, _ in commands()} - {"demo"}


def test_pages_name_commands_and_options_that_exist():
    root = Path(__file__).parents[2]
    known = {name: {o for p in c.params for o in p.opts} | {"--help"} for name, c in commands()}
    named = set()
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    for page in (path for path in pages if not {"measured", "_build"} & set(path.parts)):
        text = page.read_text("utf-8").replace("\\\n", " ")
        fenced = re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for line in [*"\n".join(fenced).splitlines(), *re.findall(r"`([^`\n]+)`", text)]:
            for name, rest in re.findall(r"\bopenset ((?:study )?[a-z]+)\b([^|#;&]*)", line):
                where = f"{page.name}: openset {name}{rest}"
                assert name in known or name in ("demo", "study"), where
                options = set(re.findall(r"(?<=\s)--?[a-z][\w-]*", rest))
                assert name == "study" or options <= known[name], where
                named.add(name)
    groups = {name.split()[0] for name in known} - {"demo"}
    assert groups == {name.split()[0] for name in named} - {"demo"}
    readme = (root / "README.md").read_text("utf-8")
    assert [name for name in groups if not re.search(rf"(`|openset ){name}", readme)] == []


def test_every_option_is_used_wrongly():
    found = {(name, p) for name, command in commands() for p in parameters(command)}
    tried = {(name, option) for name, options in WRONG.items() for option in options}
    assert found == tried | UNTESTED


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_help(name, run):
    result = run(*name.split(), "--help")
    assert result.exit_code == 0
    told = " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())
    command = dict(commands())[name]
    assert command.help.split(".")[0].split("\n")[0] in told
    for parameter in command.params:
        if parameter.param_type_name == "option":
            assert parameter.help, (name, parameter.name)
