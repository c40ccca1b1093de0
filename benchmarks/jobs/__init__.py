"""The jobs: each a function of one argument, whether to be quick, that returns a Section."""

from . import binary, clinc, gain, grid, growth, ovr, predict, selection

JOBS = {
    "grid": grid.run,
    "ovr": ovr.run,
    "predict": predict.run,
    "binary": binary.run,
    "clinc": clinc.run,
    "growth": growth.run,
    "selection": selection.run,
    "gain": gain.run,
}
