"""The jobs: each a function of one argument, whether to be quick, that returns a Section."""

from . import (
    binary,
    classes,
    clinc,
    cores,
    extremes,
    gain,
    grid,
    growth,
    many,
    ovr,
    pool,
    predict,
    scale,
    selection,
    stream,
)

JOBS = {
    "grid": grid.run,
    "ovr": ovr.run,
    "predict": predict.run,
    "binary": binary.run,
    "clinc": clinc.run,
    "cores": cores.run,
    "growth": growth.run,
    "pool": pool.run,
    **{f"scale-{name}": scale.job(name) for name in scale.CASES},
    "search-clinc150": many.run,
    "classes": classes.run,
    "selection": selection.run,
    "extremes": extremes.run,
    "gain": gain.run,
    "stream": stream.run,
}
