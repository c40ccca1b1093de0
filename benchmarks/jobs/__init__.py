"""The jobs: each a function of one argument, whether to be quick, that returns a Section."""

from functools import partial

from . import (
    binary,
    c_grid,
    classes,
    clinc,
    copies,
    cores,
    extremes,
    gain,
    grid,
    growth,
    many,
    nu_grid,
    ovr,
    pool,
    predict,
    race_loss,
    scale,
    selection,
    stream,
)

JOBS = {
    "grid": grid.run,
    **{f"c-grid-{n}": partial(c_grid.run, n) for n in (2000, 5000)},
    "c-grid-growth": c_grid.grow,
    "nu-grid": nu_grid.run,
    "ovr": ovr.run,
    "predict": predict.run,
    "binary": binary.run,
    "clinc": clinc.run,
    "cores": cores.run,
    "growth": growth.run,
    "pool": pool.run,
    **{f"scale-{name}": scale.job(name) for name in scale.CASES},
    "search-clinc150": many.run,
    "race-loss": race_loss.run,
    "classes": classes.run,
    "copies": copies.run,
    "selection": selection.run,
    "extremes": extremes.run,
    "gain": gain.run,
    "stream": stream.run,
}
