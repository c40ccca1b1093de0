"""The wheel and the source archive: each installs into an empty environment and works there."""

import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[1]

SMOKE = """
import openset
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
model = openset.OpenSetSVC().fit(X, y)
assert model.predict([[50.0] * 4]).tolist() == [-1]
assert model.bounded_.all()
assert openset.datasets.dataset_table is not None  # its catalogue is a file of the package
print(openset.__file__)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True)
    if "ConnectionError" in result.stderr or "No matching distribution" in result.stderr:
        pytest.skip("no network: the build environment cannot be made")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_installs_into_an_empty_environment(built, tmp_path, kind):
    (archive,) = built.glob(kind)
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    install = [python, "-m", "pip", "install", "--quiet", f"{archive}[cli]"]
    subprocess.run(install, check=True, cwd=tmp_path)
    told = subprocess.run([python, "-c", SMOKE], check=True, cwd=tmp_path, capture_output=True)
    assert str(home) in told.stdout.decode()  # not the checkout
    openset = python.with_name("openset")
    told = subprocess.run([openset, "--version"], check=True, cwd=tmp_path, capture_output=True)
    assert told.stdout.startswith(b"openset ")


@pytest.mark.slow
def test_the_wheel_holds_the_data_of_the_package(built):
    (wheel,) = built.glob("*.whl")
    names = set(ZipFile(wheel).namelist())
    files = {path for path in (ROOT / "src" / "openset").rglob("*.*") if path.is_file()}
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in files if "__" not in str(path)}
    assert "openset/datasets.csv" in wanted and wanted <= names
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)
