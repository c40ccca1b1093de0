"""The documentation: every public name has a docstring that numpydoc accepts, every page's examples
run, every method has a page; and, slowly, the site builds without a warning or a dead link."""

import doctest
import importlib.util
import inspect
import re
import subprocess
import sys
from dataclasses import is_dataclass
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest
from numpydoc.validate import validate

import openset

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

_spec = importlib.util.spec_from_file_location("api_pages", DOCS / "_ext" / "api_pages.py")
api_pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(api_pages)

# What is asked of a docstring: a summary on one line that ends with a full stop, all parameters, no
# others and in their order, what is returned or yielded, sections in their order. Not asked: a type
# or a text where another class is referred to, or where the type says it all (PR04, PR07).
CHECKS = {
    *("GL03", "GL05", "GL06", "GL07", "GL08", "GL09"),
    *("SS01", "SS02", "SS04"),
    *("PR01", "PR02", "PR03", "PR05", "PR06", "PR10"),
    *("RT01", "RT02", "YD01"),
}

# Rooms that other rooms call: names that `openset` itself does not offer may have a summary alone.
INTERNAL = ("openset.base.", "openset.solver.", "openset.utils.")

PAGES = sorted(path for path in DOCS.glob("**/*.md") if path.parent.name in ("docs", "methods"))
FENCE = re.compile(r"^```\{doctest\}\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _members(cls):
    kinds = (classmethod, staticmethod, property)
    for name, value in vars(cls).items():
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds)):
            yield name


def _documented():
    for module in api_pages.public_modules():
        for name in api_pages.public_names(module):
            value = getattr(import_module(module), name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{module}.{name}"
            if inspect.isclass(value):
                yield from (f"{module}.{name}.{member}" for member in _members(value))


def _find(path):
    parts = path.split(".")
    for k in range(len(parts), 0, -1):
        try:
            value = import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            value = getattr(value, part)
        return value
    raise LookupError(path)


@pytest.mark.parametrize("path", list(_documented()))
def test_docstring(path):
    value = _find(path)
    errors = {code: text for code, text in validate(path)["errors"] if code in CHECKS}
    if inspect.getdoc(value):
        errors.pop("GL08", None)  # an overriding method inherits its docstring
    fields = is_dataclass(value) and not hasattr(value, "get_params")
    if fields or (inspect.isclass(value) and issubclass(value, tuple)):
        errors.pop("PR01", None)  # its fields are listed as attributes
    if path.startswith(INTERNAL) and path.split(".")[2] not in openset.__all__:
        errors = errors.keys() - {"PR01", "RT01", "YD01"}  # one line with shapes is enough
    assert not errors


def test_top_level_names_are_documented():
    documented = set(_documented())
    for name in openset.__all__:
        if name != "__version__":
            assert f"openset.{openset._NAMES[name]}.{name}" in documented


def test_every_public_module_has_a_docstring():
    for module in api_pages.public_modules():
        assert import_module(module).__doc__


def test_pages_of_estimators_list_what_a_user_calls():
    listed = api_pages.estimator_members()
    methods = {f"{method.module}.{method.estimator}" for method in openset.registry.METHODS}
    assert methods <= listed.keys()
    for members in listed.values():
        names = [name for _, name in members]
        assert names[:2] == ["fit", "predict"]
        assert not set(names) & set(api_pages.hooks())
    assert len(listed["openset.svm.OpenSetSVC"]) <= 16  # as many as SVC of scikit-learn
    assert all(
        f"``{name}``" in api_pages.hooks_page() or f".{name}>`" in api_pages.hooks_page()
        for name in api_pages.hooks()
    )


def test_every_method_has_a_page():
    names = {name for name, _ in openset.all_estimators()}
    assert names == {path.stem for path in DOCS.glob("methods/*.md")}
    for name in names:
        text = (DOCS / "methods" / f"{name}.md").read_text("utf-8")
        assert f"`{name}`" in text.splitlines()[0]
        picture = f"```{{image}} ../_generated/regions/{name}.png"
        for part in ("**Bounded**", "**Code.**", "{doctest}", "**Reference", "**API.**", picture):
            assert part in text, f"{name}: {part} is missing"


# Examples that need a package which is no dependency: the first line of the first block names it.
OTHERS = re.compile(r"^```pycon\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _with_other_packages():
    for path in PAGES:
        examples = {}
        for block in OTHERS.findall(path.read_text("utf-8")):
            needed = re.match(r">>> (?:from|import) (?!openset|sklearn|tempfile)(\w+)", block)
            package = needed[1] if needed else [*examples][-1]
            examples.setdefault(package, []).append(block)
        for package, blocks in examples.items():
            yield pytest.param(path, blocks, package, id=f"{path.stem}-{package}")


@pytest.mark.slow
@pytest.mark.parametrize(("path", "blocks", "package"), [*_with_other_packages()])
def test_examples_with_other_packages(path, blocks, package, monkeypatch):
    pytest.importorskip(package)
    _run_examples(path, [*FENCE.findall(path.read_text("utf-8")), *blocks], monkeypatch)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_examples_of_the_page(path, monkeypatch):
    _run_examples(path, FENCE.findall(path.read_text("utf-8")), monkeypatch)


def _run_examples(path, blocks, monkeypatch):
    page = ModuleType("page")  # a module, so that classes of an example can be pickled
    monkeypatch.setitem(sys.modules, "page", page)
    parsed = doctest.DocTestParser().get_doctest(
        "\n".join(blocks), vars(page), path.name, str(path), lineno=0
    )
    parsed.globs = vars(page)  # not a copy
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    report = []
    failed = doctest.DocTestRunner(optionflags=options).run(parsed, out=report.append).failed
    assert not failed, "".join(report)


class _Links(HTMLParser):
    """Addresses that a page points to, and the anchors it has."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.anchors = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(attrs[key] for key in ("id", "name") if attrs.get(key))
        address = attrs.get("src") if tag in ("img", "script") else attrs.get("href")
        if address:
            self.targets.add(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx_gallery", reason='needs pip install "openset[docs]"')
    output = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    run = subprocess.run([*command, str(DOCS), str(output)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return output


@pytest.mark.slow
def test_site_has_a_page_for_every_public_name(site):
    for path in _documented():
        if not inspect.isclass(_find(path)) and inspect.isclass(_find(path.rpartition(".")[0])):
            continue  # a member of a class is on its page
        assert (site / "api" / "generated" / f"{path}.html").is_file(), path


@pytest.mark.slow
def test_site_has_no_dead_link_inside(site):
    found = (path for path in site.rglob("*.html") if "_static" not in path.parts)
    pages = {path: _Links(path.read_text("utf-8")) for path in found}
    dead = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.exists():
                dead.append((path.name, target))
            elif parts.fragment and there in pages:
                if unquote(parts.fragment) not in pages[there].anchors:
                    dead.append((path.name, target))
    assert not dead, dead


@pytest.mark.slow
def test_site_is_readable_without_a_network(site):
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        for loaded in re.findall(r'<(?:script|img)[^>]+src="([^"]+)"', text):
            assert not urlsplit(loaded).netloc, (path.name, loaded)
        for loaded in re.findall(r'<link[^>]+rel="stylesheet"[^>]+href="([^"]+)"', text):
            assert not urlsplit(loaded).netloc, (path.name, loaded)
