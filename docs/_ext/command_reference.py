"""Write the reference of the command line, `_generated/commands.md`, from the commands."""

from pathlib import Path

import typer

from openset.cli import app as commands


def _text(value: str | None) -> str:
    """Help text as one cell of a Markdown table."""
    return " ".join((value or "").split()).replace("|", "\\|").replace("<", "&lt;")


def _default(parameter) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or callable(value) or value is False or value == ():
        return ""
    return f"`{value}`"


def _section(name: str, command) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([name, *(p.name.upper() for p in arguments)])
    lines = [f"## `{usage}`", "", _text(command.help), ""]
    lines += ["| option | default | meaning |", "| --- | --- | --- |"]
    for parameter in command.params:
        options = [o for o in parameter.opts if o.startswith("-")]
        if "--help" in options:
            continue
        shown = ", ".join(f"`{o}`" for o in options) or f"`{parameter.name.upper()}`"
        lines.append(f"| {shown} | {_default(parameter)} | {_text(parameter.help)} |")
    return [*lines, ""]


def reference() -> str:
    """All commands by their full names."""
    lines = []
    waiting = [("openset", typer.main.get_command(commands))]
    while waiting:
        name, command = waiting.pop(0)
        inner = getattr(command, "commands", None)
        if inner is None:
            lines += _section(name, command)
        else:
            waiting += [(f"{name} {sub}", found) for sub, found in inner.items()]
    return "\n".join(lines)


def write_reference(docs: Path) -> None:
    """Write the file if its content has changed."""
    path = docs / "_generated" / "commands.md"
    path.parent.mkdir(exist_ok=True)
    text = reference()
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def setup(app):
    """Write now, because the pages must exist when Sphinx looks for documents."""
    write_reference(Path(app.srcdir))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
