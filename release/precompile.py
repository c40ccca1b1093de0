"""Compile what the usual calls need for a level of processors, into the folder of argument 1.

The functions are those that ``openset.warm`` calls; no list of names has to be kept. ``make wheel``
runs this and puts the folder into the wheel.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from openset.utils import _precompiled


def compile_into(folder: Path) -> None:
    """Run the calls of ``openset.warm`` and save every function that they compiled."""
    from numba.core.dispatcher import Dispatcher

    import openset

    openset.warm()
    ours = [m for name, m in sys.modules.items() if name.partition(".")[0] == "openset"]
    functions = {f for m in ours for f in vars(m).values() if isinstance(f, Dispatcher)}
    target = folder / _precompiled.FOLDER_NAME
    target.mkdir(parents=True)
    for function in functions:
        for signature, compiled in function.overloads.items():
            _precompiled.save(target, function.py_func, signature, compiled)
    sizes = [path.stat().st_size for path in target.iterdir()]
    print(f"{len(sizes)} compiled functions, {sum(sizes) / 1e6:.1f} MB: {target}")


if __name__ == "__main__":
    if "OPENSET_PRECOMPILE" in os.environ:
        compile_into(Path(sys.argv[1]))
    else:  # Numba reads its settings when it is imported
        with TemporaryDirectory() as empty:
            level = {"NUMBA_CPU_NAME": _precompiled.LEVEL, "NUMBA_CPU_FEATURES": ""}
            level |= {"NUMBA_DISABLE_INTEL_SVML": "1"}  # a library that users may not have
            level |= {"NUMBA_CACHE_DIR": empty, "OPENSET_PRECOMPILE": "1"}
            subprocess.run([sys.executable, *sys.argv], check=True, env=os.environ | level)
