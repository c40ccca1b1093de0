"""Compile what the usual calls need for a level of processors, into the folder of argument 1.

The functions are those that ``openset.warm`` calls; no list of names has to be kept. ``make wheel``
runs this and puts the folder into the wheel.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from openset.utils import compiled


def compile_into(folder: Path) -> None:
    """Run the calls of ``openset.warm`` and save every function that they compiled."""
    from openset import host

    host.warm()
    target = folder / compiled.FOLDER_NAME
    target.mkdir(parents=True)
    for function in host.compiled_functions():
        for signature, code in function.overloads.items():
            compiled.save_for_wheel(target, function.py_func, signature, code)
    sizes = [path.stat().st_size for path in target.iterdir()]
    print(f"{len(sizes)} compiled functions, {sum(sizes) / 1e6:.1f} MB: {target}")


if __name__ == "__main__":
    if "OPENSET_PRECOMPILE" in os.environ:
        compile_into(Path(sys.argv[1]))
    else:  # Numba reads its settings when it is imported
        with TemporaryDirectory() as empty:
            level = {"NUMBA_CPU_NAME": compiled.LEVEL, "NUMBA_CPU_FEATURES": ""}
            level |= {"NUMBA_DISABLE_INTEL_SVML": "1"}  # a library that users may not have
            level |= {"NUMBA_CACHE_DIR": empty, "OPENSET_PRECOMPILE": "1"}
            subprocess.run([sys.executable, *sys.argv], check=True, env=os.environ | level)
