"""Run each command once, so that forks of this process start within milliseconds."""

import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from .updating import app, model_file, table_file

with tempfile.TemporaryDirectory() as _folder:
    _model, _table = Path(_folder, "m.skops"), table_file(Path(_folder, "t.csv"), 40)
    _model.write_bytes(model_file())
    for _words in (
        ["predict", _model, _table, "-o", Path(_folder, "o.csv")],
        ["learn", _model, "--data", _table, _table, "-o", _model, "--rename", "a=A"],
    ):
        with suppress(SystemExit), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            app([*map(str, _words), "--jobs", "1"])
