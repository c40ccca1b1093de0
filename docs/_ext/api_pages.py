"""Write the pages of the API from the public names of the package.

Each subpackage has a page `api/ROOM.rst` with the names of its ``__all__``, and each name has a
page made by autosummary. So a new public name is documented automatically.
"""

from functools import cache
from importlib import import_module
from inspect import getdoc, isclass, isfunction, ismodule
from pathlib import Path

import openset

# Modules by task, in the order most useful to readers; other public modules follow.
TASKS = {
    "Classify or reject": ["svm", "gaussian", "neighbors", "evt", "wrappers"],
    "Choose parameters, measure, compare": ["model_selection", "metrics", "evaluation", "plots"],
    "Set the operating point": ["calibration", "traffic"],
    "Look at what was rejected": ["discovery", "monitoring"],
    "Save and serve a model": ["persistence", "export"],
    "Data and experiments": ["datasets", "tables", "study", "study.stats"],
    "Extend the library": [
        "base",
        "kernels",
        "solver",
        "solver.landmarks",
        "utils",
        "utils.estimator_checks",
    ],
}

# What a user calls on an estimator, in the order of need. Its other members are for who writes a
# method: they are on the page of the base class, and listed on HOOKS.
CALLS = [
    *("fit", "predict", "predict_known", "predict_set", "known_score", "decision_function"),
    *("inclusion_proba", "predict_groups", "group_scores", "known_p_value", "p_values", "check"),
    *("explain", "bounded_", "score", "add_classes", "remove_classes", "rename_classes"),
    *("certificate", "unknown_label_", "classes_"),
]
HOOKS = "hooks"


def modules_by_task() -> dict[str, list[str]]:
    """Names of the modules that have a page, in order, by what they are for."""
    listed = {room for rooms in TASKS.values() for room in rooms}
    tasks = TASKS | {"Other modules": sorted(openset._SUBMODULES - listed)}
    known = {
        task: [f"openset.{room}" for room in rooms if room.partition(".")[0] in openset._SUBMODULES]
        for task, rooms in tasks.items()
    }
    return {task: modules for task, modules in known.items() if modules}


def public_modules() -> list[str]:
    """Names of the modules that have a page, in order."""
    return [module for modules in modules_by_task().values() for module in modules]


def public_names(module: str) -> list[str]:
    """Names that a module declares public; a class of another public module is on its page."""
    found = import_module(module)
    names = (name for name in found.__all__ if not name.startswith("_"))
    names = (name for name in names if not ismodule(getattr(found, name)))
    return sorted((n for n in names if not _has_home(module, getattr(found, n))), key=str.lower)


def _has_home(module: str, value: object) -> bool:
    if not isclass(value) or value.__module__.startswith(f"{module}."):
        return False
    homes = (m for m in public_modules() if m != module and value.__module__.startswith(f"{m}."))
    return any(value.__name__ in import_module(home).__all__ for home in homes)


def _title(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _summary(names: list[str], template: str) -> list[str]:
    head = [".. autosummary::", "   :toctree: generated", "   :nosignatures:"]
    return [*head, f"   :template: {template}.rst", "", *(f"   {name}" for name in names), ""]


def _estimators() -> list[tuple[str, type]]:
    """Modules and classes of all public estimators, base classes included."""
    from openset.base import OpenSetClassifier

    values = [
        (m, getattr(import_module(m), name)) for m in public_modules() for name in public_names(m)
    ]
    return [
        (m, value) for m, value in values if isclass(value) and issubclass(value, OpenSetClassifier)
    ]


def _is_base(module: str, cls: type) -> bool:
    return module == "openset.base" or cls.__name__ in ("OpenSetWrapper", "ShiftedWrapper")


@cache
def hooks() -> dict[str, tuple[str, type]]:
    """Members of the base classes that only authors of a method need: their module and class."""
    found: dict[str, tuple[str, type]] = {}
    bases = [(module, cls) for module, cls in _estimators() if _is_base(module, cls)]
    for module, cls in sorted(bases, key=lambda base: len(base[1].__mro__)):
        for name in vars(cls):
            fitted_or_called = name.startswith("_") or name.endswith("_") or name in CALLS
            if not fitted_or_called and name not in found:
                found[name] = module, cls
    return found


def members(cls: type) -> list[tuple[str, str]]:
    """(directive, name) of what a user calls on an estimator, first things first."""
    names = [name for name in dir(cls) if not name.startswith("_") and name not in hooks()]
    names = [name for name in names if not name.endswith("_request")]
    ours = {
        name: getattr(cls, name)
        for name in names
        if any(name in vars(c) for c in cls.__mro__ if c.__module__.startswith("openset"))
    }
    shown = [name for name in ours if getdoc(ours[name])]
    order = {name: k for k, name in enumerate(CALLS)}
    shown.sort(key=lambda name: (order.get(name, len(order)), name))
    return [
        ("autoproperty" if isinstance(ours[name], property) else "automethod", name)
        for name in shown
        if callable(ours[name]) or isinstance(ours[name], property)
    ]


def estimator_members() -> dict[str, list[tuple[str, str]]]:
    """`members` of every estimator that is no base class, by its full name."""
    found = ((module, cls) for module, cls in _estimators() if not _is_base(module, cls))
    return {f"{module}.{cls.__name__}": members(cls) for module, cls in found}


def hooks_page() -> str:
    """The list of what a method may define, with the class that has it."""
    title = "What a method may define"
    lines = [
        *_title(title, "="),
        "For authors of a method: members of the base classes that are not called on a fitted",
        "model. :doc:`The page on methods <../extend>` shows which of them a method needs.",
        "",
        ".. list-table::",
        "   :widths: 25 25 50",
        "",
    ]
    for name, (module, cls) in sorted(hooks().items(), key=lambda item: item[1][1].__name__):
        value, where = getattr(cls, name), f"~{module}.{cls.__name__}"
        documented = callable(value) or isinstance(value, property)
        first = (getdoc(value) or "").partition("\n")[0] if documented else "A declaration."
        shown = f":obj:`{name} <{where[1:]}.{name}>`" if documented else f"``{name}``"
        lines += [f"   * - {shown}", f"     - :class:`{where}`", f"     - {first}"]
    return "\n".join([*lines, ""])


def module_page(module: str) -> str:
    """The page of a module: its docstring, and lists of its classes, functions and data."""
    found = import_module(module)
    classes, functions, data = [], [], []
    for name in public_names(module):
        value = getattr(found, name)
        (classes if isclass(value) else functions if isfunction(value) else data).append(name)
    lines = [*_title(module, "="), f".. automodule:: {module}", "   :no-members:", ""]
    lines += [f".. currentmodule:: {module}", ""]
    if classes:
        lines += [*_title("Classes", "-"), *_summary(classes, "class")]
    if functions:
        lines += [*_title("Functions", "-"), *_summary(functions, "function")]
    if data:
        lines += _title("Data", "-")
        for name in data:
            lines += [f".. autodata:: {name}", "   :no-value:", ""]
    return "\n".join(lines)


def index_page() -> str:
    """The list of modules, with the first line of their docstrings."""
    names = [f":obj:`~openset.{room}.{name}`" for name, room in sorted(openset._NAMES.items())]
    lines = [
        *_title("API", "="),
        f"The most common names can be imported from ``openset`` itself: {', '.join(names)}.",
        "",
        "These are all public modules; anything not listed there is private.",
        "",
    ]
    for task, modules in modules_by_task().items():
        lines += [*_title(task, "-"), ".. list-table::", "   :widths: 30 70", ""]
        for module in modules:
            first = (import_module(module).__doc__ or "").strip().partition("\n")[0]
            lines += [f"   * - :doc:`{module} <{module}>`", f"     - {first}"]
        lines.append("")
    lines += [f"What a method may define has a :doc:`page of its own <{HOOKS}>`.", ""]
    lines += ["", ".. toctree::", "   :hidden:", ""]
    lines += [f"   {module}" for module in public_modules()]
    return "\n".join([*lines, f"   {HOOKS}", ""])


def write_pages(docs: Path) -> None:
    """Write the pages that have changed, and delete those of names that no longer exist."""
    folder = docs / "api"
    folder.mkdir(exist_ok=True)
    names = {f"{module}.{name}" for module in public_modules() for name in public_names(module)}
    for path in folder.glob("generated/*.rst"):
        if path.stem not in names:
            path.unlink()
    pages = {f"{module}.rst": module_page(module) for module in public_modules()}
    for name, text in {"index.rst": index_page(), f"{HOOKS}.rst": hooks_page(), **pages}.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def setup(app):
    """Write now, because the pages must exist when Sphinx looks for documents."""
    write_pages(Path(app.srcdir))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
