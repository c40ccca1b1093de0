import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from openset.cli import app

runner = CliRunner()


def test_version():
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"openset {version('openset')}\n"


def test_no_arguments_shows_the_commands():
    result = runner.invoke(app, [])
    assert "demo" in result.output


@pytest.mark.parametrize("arguments", [["dmeo"], ["--verison"], ["demo", "extra"]])
def test_bad_arguments(arguments):
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert arguments[-1] in result.output


def test_console_script_runs():
    code = "import sys; sys.argv = ['openset', '--version']; from openset.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stdout.startswith("openset ")
    module = subprocess.run(
        [sys.executable, "-m", "openset", "--version"], capture_output=True, text=True
    )
    assert module.stdout == result.stdout


def test_without_the_extra_one_line_names_the_remedy():
    # None in sys.modules makes the import fail as if the package were not installed.
    code = "import sys; sys.modules['typer'] = None; from openset.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == (
        'openset: the command needs typer and rich; run: pip install "openset[cli]"\n'
    )


def test_another_missing_module_is_not_blamed_on_the_extra():
    code = (
        "import sys; sys.modules['openset.cli._app'] = None; from openset.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ModuleNotFoundError" in result.stderr
    assert "openset[cli]" not in result.stderr


def test_compare_without_matplotlib_names_the_extra(tmp_path):
    arguments = ["openset", "compare", "t.csv", "-t", "kind", "-o", str(tmp_path / "p.html")]
    code = (
        f"import sys; sys.modules['matplotlib'] = None; sys.argv = {arguments}; "
        "from openset.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == (
        'openset: openset.plots needs matplotlib; run: pip install "openset[plots]"\n'
    )
