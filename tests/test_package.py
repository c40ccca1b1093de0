"""The package as a whole: what importing it costs, what it shows, which room imports which."""

import ast
import json
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest

import openset

PACKAGE = Path(openset.__file__).parent

# The map of the house, from the ground up: a subpackage may import those on lower floors (the
# solver only kernels and utils), and none on its own floor.
FLOORS = [
    ["utils"],
    ["kernels", "metrics", "datasets"],
    ["solver"],
    ["base"],
    ["svm", "evt", "neighbors", "gaussian", "wrappers"],
    ["registry"],
    ["model_selection"],
    ["tables"],
    ["calibration", "discovery"],
    ["evaluation"],
    ["traffic"],
    ["monitoring"],
    ["export", "persistence", "plots"],
    ["study", "host"],
    ["cli"],
]
MAY_IMPORT = {
    room: {below for floor in FLOORS[:level] for below in floor}
    for level, floor in enumerate(FLOORS)
    for room in floor
} | {"solver": {"kernels", "utils"}, "__main__": {"cli"}}


def _in_fresh_interpreter(code: str):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_version():
    assert openset.__version__ == version("openset")


def test_typed():
    assert files("openset").joinpath("py.typed").is_file()


@pytest.mark.parametrize("name", openset.__all__)
def test_public_name_loads(name):
    assert getattr(openset, name) is not None
    assert name in dir(openset)


def test_type_checkers_see_what_is_loaded_lazily():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n))
    seen = {alias.asname for node in block.body for alias in node.names}
    assert seen == set(openset.__all__) - {"__version__"}


def test_submodules_load_on_access():
    loaded = _in_fresh_interpreter(
        "import json, openset; print(json.dumps([openset.metrics.__name__, dir(openset)]))"
    )
    assert loaded[0] == "openset.metrics"
    assert {"svm", "metrics", "datasets"} <= set(loaded[1])


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'OpenSetSVM'"):
        openset.OpenSetSVM  # noqa: B018


def test_import_is_cheap():
    # scikit-learn loads pandas where it is installed; only what we add to it counts.
    seconds, added = _in_fresh_interpreter(
        "import json, sys, time, sklearn\n"
        "before = set(sys.modules)\n"
        "start = time.perf_counter()\n"
        "import openset\n"
        "seconds = time.perf_counter() - start\n"
        "print(json.dumps([seconds, sorted(set(sys.modules) - before)]))"
    )
    assert [name for name in added if name.partition(".")[0] != "openset"] == []
    assert seconds < 3  # far above what it takes; a loaded machine must not fail here


def test_importing_the_estimators_compiles_nothing():
    added, compiled = _in_fresh_interpreter(
        "import json, sys, sklearn.svm\n"  # which loads what it likes
        "before = set(sys.modules)\n"
        "import openset.kernels, openset.solver, openset.metrics, openset.datasets\n"
        "openset.all_estimators()\n"
        "added = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "from numba.core.dispatcher import Dispatcher\n"
        "ours = [m for n, m in sys.modules.items() if n.partition('.')[0] == 'openset']\n"
        "jitted = {f'{m.__name__}.{k}': v for m in ours for k, v in vars(m).items()\n"
        "          if isinstance(v, Dispatcher)}\n"
        "assert jitted, 'found no compiled function to look at'\n"
        "print(json.dumps([sorted(added), [k for k, v in jitted.items() if v.signatures]]))"
    )
    assert {"pandas", "pyarrow", "matplotlib", "typer", "rich", "cvxopt"}.isdisjoint(added)
    assert compiled == []


def _names_imported(path: Path) -> set[str]:
    """Full names that a source file imports from openset, anywhere in it."""
    package = ("openset", *path.relative_to(PACKAGE).parent.parts)
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join((*parents, *filter(None, [node.module])))
            names += [f"{module}.{alias.name}" for alias in node.names]
    return {name for name in names if name.startswith("openset.")}


FILES = pytest.mark.parametrize(
    "path",
    sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py"),
    ids=lambda path: str(path.relative_to(PACKAGE)),
)


@FILES
def test_dependencies_point_downwards(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert room in MAY_IMPORT, f"put the new room {room!r} on the map"
    rooms = {name.split(".")[1] for name in _names_imported(path)} & MAY_IMPORT.keys()
    assert rooms - {room} <= MAY_IMPORT[room]


@FILES
def test_only_public_names_pass_between_subpackages(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    foreign = {name for name in _names_imported(path) if name.split(".")[1] != room}
    private = {
        name
        for name in foreign - {"openset.__version__"}
        if any(part.startswith("_") for part in name.split("."))
    }
    assert not private, f"{path.name} imports private names: {sorted(private)}"


@FILES
def test_compiled_functions_have_few_parameters(path):
    """A compiled loop takes NamedTuples of state, not a long list of arrays."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and any(
            name in ast.unparse(decorator)
            for decorator in node.decorator_list
            for name in ("jit", "helper")
        ):
            arguments = [*node.args.posonlyargs, *node.args.args]
            assert len(arguments) <= 8, f"{node.name} has {len(arguments)} positional parameters"
