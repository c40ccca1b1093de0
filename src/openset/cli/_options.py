"""What commands share: options, the files that they read and write, errors in one line.

A command is a function under `reported`. Its parameters are the options, and paragraphs
"name: text" of its docstring are their help; `HELPS` has that of common ones. A first parameter
`shared` stands for the options that every command of its kind has.

No output takes the place of anything else that the command reads or writes: each parameter that
names a file carries a `Role`, and `reported` checks these before any work.
"""

import csv
import io
import json
import logging
import os
import re
import shlex
import shutil
import stat
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, fields
from functools import cache, wraps
from inspect import Parameter, Signature, cleandoc, get_annotations, signature
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ParameterInfo

from openset import __version__, registry

# Exit codes: 0 success; FAILED for bad data, models or system errors; MISUSED, as click's, for
# options; ALARM of a monitor, which is neither success nor failure.
FAILED, MISUSED, ALARM, INTERRUPTED = 1, 2, 3, 130


class UsageError(ValueError):
    """Options that do not go together, or a value that an option cannot have."""


@dataclass(frozen=True)
class Role:
    """What a command does with the files that a parameter names."""

    kind: Literal["reads", "replaces", "writes"]  # replaces: read, and the output may be it
    patterns: tuple[str, ...] = ()  # of the files that are written, if the parameter is a folder
    more: Callable[[dict[str, Any]], Iterable[Path]] = lambda arguments: ()  # files beside it


READS, REPLACES, WRITES = Role("reads"), Role("replaces"), Role("writes")

METHODS = ", ".join(method.command for method in registry.METHODS if method.command)

# Help of options by name, unless the docstring of a command says something else.
HELPS = f"""
data: Table: CSV, TSV (also .gz), Parquet (a file or a folder of parts), Arrow, NPY/NPZ, SVMlight; -
    is standard input.
model: Model file from `openset fit`.
target: Column of the class.
method: One of {METHODS}.
features: Feature columns, comma-separated; default: all usable ones.
drop: Columns to ignore, comma-separated.
missing: Rows with missing values: an error, drop them, or fill in the median.
unknown: Label of rows that are examples of the unknown.
group: Column of the object (track, speaker, session) that each row belongs to, if rows of one
    object are alike.
scheduler: Dask scheduler whose workers do the work, for example tcp://127.0.0.1:8786.
seed: Seed of all random draws.
jobs: Number of threads; -1 uses all cores.
encoding: Encoding of a text table.
decimal: Decimal mark of the numbers in a text table.
as_json: Print JSON instead of text.
"""

Data = Annotated[Path, typer.Argument(metavar="DATA"), READS]
Model = Annotated[Path, typer.Argument(metavar="MODEL"), READS]
ReplacedModel = Annotated[Path, typer.Argument(metavar="MODEL"), REPLACES]
ReadFile = Annotated[Path | None, READS]
NewModel = Annotated[Path, typer.Option("--output", "-o", help="Model file to write."), WRITES]
NewPage = Annotated[Path, typer.Option("--output", "-o", help="HTML page to write."), WRITES]
Target = Annotated[str, typer.Option("--target", "-t")]
TrainTarget = Annotated[
    str | None,
    typer.Option("--target", "-t", help="Column of the class in TRAIN; default: as fitted."),
]
Column = Annotated[str | None, typer.Option(metavar="COLUMN")]
Missing = Literal["error", "drop", "median"]
Unknown = Annotated[str | None, typer.Option(metavar="LABEL")]
Share = Annotated[float | None, typer.Option(min=0, max=1)]
Scheduler = Annotated[str | None, typer.Option(metavar="ADDRESS")]
Seed = Annotated[int, typer.Option(min=0)]


def _check_jobs(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("0 threads are not possible; use 1 or more, or -1 for all cores")
    return jobs


@dataclass
class Output:
    """Options of every command that prints a result: as text, or as JSON."""

    as_json: Annotated[bool, typer.Option("--json")] = False

    def tell(
        self, told: Any, lines: Iterable[str], indent: int | None = 1, err: bool = False
    ) -> None:
        """Print what is told as JSON, or else the lines, which are not made before."""
        if self.as_json:
            typer.echo(json.dumps(told, indent=indent), err=err)
        else:
            say(*lines, err=err)

    @property
    def verbose(self) -> int:
        """1 if messages of the library may be printed, on a terminal."""
        return int(sys.stderr.isatty() and not self.as_json)

    def note(self, *lines: str) -> None:
        """Print lines before the result, unless that is JSON."""
        if not self.as_json:
            say(*lines)


@dataclass
class Reading(Output):
    """Options of every command that reads tables."""

    encoding: str = "utf-8"
    decimal: Literal[".", ","] = "."

    def open(self, path: Path) -> Any:
        """The table in a file."""
        from openset.tables import open_table

        return open_table(path, self.encoding, self.decimal)


@dataclass
class Working(Reading):
    """Options of every command that computes with tables."""

    jobs: Annotated[int, typer.Option(callback=_check_jobs)] = -1

    def model(self, path: Path, n_jobs: int | None = None) -> Any:
        """The model in a file, which takes tables."""
        from openset.persistence import read_model
        from openset.tables import TableModel

        return TableModel(*read_model(path), n_jobs=n_jobs or self.jobs)

    def features(self, model: Any, path: Path | None) -> Any:
        """The features (n, d) of a model in all rows of a file, if there is one."""
        return None if path is None else model.read(self.open(path))[0]


class _PlainFlags:
    """Flags without <bool> behind their names, which newer versions of typer print."""

    def get_params(self, context):
        parameters = super().get_params(context)  # with those that typer adds
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class PlainCommand(_PlainFlags, TyperCommand):
    """A command with plain flags."""


class PlainGroup(_PlainFlags, TyperGroup):
    """A group of commands with plain flags."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"openset {__version__}")
        raise typer.Exit


def with_version(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Nothing else: this is the option of the command without a subcommand."""


@contextmanager
def usage() -> Iterator[None]:
    """Turn a ValueError about the value of an option into a UsageError."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from None


def split(names: str | None, option: str) -> list[str] | None:
    """The items of a comma-separated list, at least one; None if the option was not given."""
    # A name that has a comma is in double quotes, as in a CSV file.
    if names is None:
        return None
    found = next(csv.reader([names], skipinitialspace=True)) if '"' in names else names.split(",")
    items = [name.strip() for name in found if name.strip()]
    if not items:
        raise typer.BadParameter(f"{names!r} names nothing", param_hint=option)
    return items


def given(**options: Any) -> dict[str, Any]:
    """The options that have a value, by how they are written."""
    given = {name: v for name, v in options.items() if v is not None and v is not False and v != []}
    return {f"--{name.replace('_', '-')}": value for name, value in given.items()}


def joined(names: Iterable) -> str:
    """A comma-separated list that `split` takes apart again."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def columns(features: str | None, drop: str | None) -> dict[str, Any]:
    """The options that choose columns, as arguments of ``read_training``."""
    return {"features": split(features, "--features"), "drop": split(drop, "--drop")}


def prepare_output(output: Path) -> None:
    """Create the folder of an output file; raise, before any work, if it cannot be written."""
    if str(output) == "-":
        return
    if output.is_dir():
        raise FileExistsError(f"cannot write {output}: it is a folder")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"cannot write {output}: the folder {output.parent} cannot be created "
            f"({error.strerror})"
        ) from error
    if not os.access(output.parent, os.W_OK):
        raise PermissionError(f"cannot write {output}: the folder {output.parent} is read-only")


def reported(command: Callable) -> Callable:
    """Decorate a command so that an error is one line and an exit code, not a traceback."""
    # If OPENSET_DEBUG is set in the environment, errors are raised, for bug reports.
    doc, options, shared = _interface(command)

    @wraps(command)
    def guarded(**arguments):
        if shared is not None:
            names = [field.name for field in fields(shared)]
            arguments["shared"] = shared(**{name: arguments.pop(name) for name in names})
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            logger = logging.getLogger("openset")
            if sys.stderr.isatty() and not logger.handlers:  # show how far the compiler is
                logger.addHandler(_ProgressLine())
                logger.setLevel(logging.INFO)
            written: list = []
            try:
                from openset.utils import last_written  # late: --help must not load what computes

                written = last_written
                written.clear()
                with guard(command, arguments):
                    return command(**arguments)
            except KeyboardInterrupt:
                complete = ", ".join(map(str, written)) or "nothing"
                complain(f"interrupted; {complete} was written")
                raise typer.Exit(INTERRUPTED) from None
            except (BrokenPipeError, typer.Exit, typer.BadParameter):
                raise  # click exits quietly if the reader of our output has gone
            except Exception as error:
                if os.environ.get("OPENSET_DEBUG"):
                    raise
                complain(_line(error))
                raise typer.Exit(MISUSED if isinstance(error, UsageError) else FAILED) from None

    guarded.__doc__ = doc
    vars(guarded)["__signature__"] = Signature(options)
    return guarded


def _interface(command: Callable) -> tuple[str, list[Parameter], Any]:
    """The help of a command, its options for typer, and the class of the parameter `shared`."""
    doc, helps = _helps(command.__doc__ or "")
    hints = get_type_hints(command, include_extras=True)
    shared = hints.pop("shared", None)
    for cls in getattr(shared, "__mro__", ()):
        hints |= get_annotations(cls)
    del hints["return"]
    parameters, options = signature(command).parameters, []
    for name, hint in hints.items():
        default = parameters[name].default if name in parameters else getattr(shared, name)
        base, *more = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        infos = [info for info in more if isinstance(info, ParameterInfo)]
        info = copy([*infos, typer.Option(f"--{name.replace('_', '-')}")][0])
        info.help = helps.get(name) or info.help or _helps(HELPS)[1].get(name)
        kind, hint = Parameter.KEYWORD_ONLY, Annotated[base, info]
        options.append(Parameter(name, kind, default=default, annotation=hint))
    return doc, options, shared


@cache
def _helps(doc: str) -> tuple[str, dict[str, str]]:
    """The text of a docstring, and that of its paragraphs "name: text" by name."""
    text, *told = re.split(r"\n(\w+): ", "\n" + cleandoc(doc))
    helps = (" ".join(line.split()) for line in told[1::2])
    return text.strip(), dict(zip(told[::2], helps, strict=True))


class _ProgressLine(logging.Handler):
    """Show messages of the library; those of level INFO in one line, which an empty one clears."""

    def emit(self, record: logging.LogRecord) -> None:
        end = "" if record.levelno < logging.WARNING else "\n"
        print(f"\r\x1b[K{record.getMessage()}", end=end, file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """The text with every character that a terminal would act on written as an escape."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def say(*lines: str, err: bool = False) -> None:
    """Print lines of text, which may hold names from untrusted files."""
    typer.echo("\n".join(printable(line) for line in lines), err=err)


def next_command(purpose: str, *command: object) -> str:
    """A line with a command that may come next, as a shell reads it, and what it is for."""
    return f"next: {shlex.join(map(str, ('openset', *command)))}  # {purpose}"


def saved(output: Path, size: bool = False) -> list[str]:
    """Lines about a model that was saved, and what may come next."""
    megabytes = f" ({output.stat().st_size / 1e6:.2f} MB)" if size else ""
    following = next_command("answers new rows", "predict", output, "TABLE")
    return [f"saved {output}{megabytes}", following]


def say_wrapped(*lines: str) -> None:
    """Print lines as `say`, wrapped at words to the width of the terminal."""
    width = shutil.get_terminal_size().columns
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    for line in "\n".join(lines).split("\n"):
        say(line) if len(line) <= width else say(*wrapper.wrap(line))


def complain(message: str) -> None:
    """Print one line on standard error, replacing a line of progress."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{clear}openset: {printable(message)}", file=sys.stderr)


def stage(message: str) -> None:
    """Print what is going on, on a terminal only."""
    if sys.stderr.isatty():
        print(printable(message), file=sys.stderr)


def _line(error):
    message = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    if isinstance(error, MemoryError):
        return "out of memory"
    ours = type(error).__module__.partition(".")[0] == "openset"
    if ours or isinstance(error, ValueError | OSError | ImportError):
        return message
    return f"{type(error).__name__}: {message} (set OPENSET_DEBUG=1 to see where)"


def _show_warning(message, category, filename, lineno, file=None, line=None):
    # Deprecations are for developers; those of some libraries are also UserWarnings.
    if issubclass(category, UserWarning) and not issubclass(category, DeprecationWarning):
        complain(f"warning: {' '.join(str(message).split())}")


def guard(command: Callable, arguments: dict[str, Any]) -> AbstractContextManager:
    """Raise FileExistsError if an output is a file that the command reads or writes otherwise."""
    # The context holds the lock of a model that the command replaces.
    from openset.utils import update_lock  # late: --help must not load what computes

    files = _files(command, arguments)
    context: AbstractContextManager = nullcontext()
    for output, other in product(files, files):
        if output[1].kind != "writes":
            continue
        if output is not other:
            keep_apart(*output, *other)
        if other[1] is REPLACES and _identity(output[0]) == _identity(other[0]):
            context = update_lock(other[0])
    return context


def _files(command: Callable, arguments: dict[str, Any]) -> list[tuple[Path, Role]]:
    """The files that a command reads and writes."""
    files = []
    for name, hint in get_type_hints(command, include_extras=True).items():
        for role in getattr(hint, "__metadata__", ()):
            if isinstance(role, Role):
                value = arguments.get(name)
                named = value if isinstance(value, tuple | list) else [value]
                paths = filter(None, [*named, *role.more(arguments)])
                files += [(_opened(path, role), role) for path in paths]
    return files


def keep_apart(output: Path, role: Role, path: Path, kind: Role) -> None:
    """Raise FileExistsError if writing the output would change another file of the command."""
    if kind.patterns:  # checked the other way round, file by file
        return
    does = "reads" if kind.kind != "writes" else "writes, too"
    same = {"reads": "it is read by this command", "replaces": ""}
    other, is_folder, members = _identity(path), path.is_dir(), [*map(_identity, path.glob("*"))]
    for written in (output, *chain.from_iterable(map(output.glob, role.patterns))):
        own, problem = _identity(written), ""
        folders = map(_identity, Path(os.path.realpath(written)).parents)
        if own == other:
            problem = same.get(kind.kind, f"it is {path}, which this command {does}")
        elif is_folder and (own in members or other in folders):
            problem = f"it belongs to {path}, which this command {does}"
        if problem:
            raise FileExistsError(f"cannot write {written}: {problem}; choose another name")


def _opened(path: Path, role: Role) -> Path:
    """The path, or the file that a standard stream was redirected to."""
    if str(path) != "-":
        return path
    return Path("/dev/stdout" if role.kind == "writes" else "/dev/stdin")


def _identity(path: Path) -> object:
    """Equal for all names of one file: links, relative paths, another case."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.normcase(os.path.realpath(path))
    ordinary = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return (found.st_dev, found.st_ino) if ordinary else str(path)
