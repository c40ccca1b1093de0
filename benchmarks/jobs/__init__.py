"""The jobs: each a function of one argument, whether to be quick, that returns a Section."""

from . import binary, clinc, grid, growth, ovr, predict

JOBS = {
    "grid": grid.run,
    "ovr": ovr.run,
    "predict": predict.run,
    "binary": binary.run,
    "clinc": clinc.run,
    "growth": growth.run,
}
