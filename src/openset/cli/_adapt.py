"""``openset adapt``: a model and unlabelled rows in, a model that has learned from them out."""

from pathlib import Path
from typing import Annotated

import typer

from openset.cli import _options as options
from openset.cli._learn import save_taught
from openset.cli._options import READS, reported
from openset.cli._text import describe_adaptation


@reported
def adapt(
    shared: options.Working,
    model: options.ReplacedModel,
    traffic: Annotated[Path, typer.Argument(metavar="TABLE"), READS],
    data: Annotated[Path, typer.Option("--data", metavar="TRAIN"), READS],
    output: options.NewModel,
    target: options.TrainTarget = None,
    new_kinds: Annotated[float, typer.Option(min=0, max=1)] = 0.3,
    confidence: Annotated[float, typer.Option(min=0, max=1)] = 0.95,
    seed: options.Seed = 0,
) -> None:
    """Learn from unlabelled rows what unknown rows look like, or keep the model and say why.

    traffic: Unlabelled rows in use, known and unknown mixed.
    data: Training table.
    new_kinds: Share of the unknown rows to come that are of new kinds.
    confidence: Of the promise that rows of TABLE are unknown.
    """
    from sklearn.frozen import FrozenEstimator

    from openset.calibration import CalibratedRejector
    from openset.persistence import descent
    from openset.traffic import TrafficClassifier
    from openset.utils import replace_final

    options.prepare_output(output)
    scorer = shared.model(model)
    if isinstance(scorer.final, CalibratedRejector):
        raise ValueError(
            f"{model} is calibrated, and its operating point would not hold for another model; "
            "adapt the model from before `openset calibrate`, and calibrate what comes out"
        )
    X, y, *_ = scorer.read_training(shared.open(data), target)
    X_traffic = shared.features(scorer, traffic)
    # A model that has learned before learns again, from what it was.
    before = getattr(scorer.final, "estimator_", scorer.final)
    adapted = TrafficClassifier(FrozenEstimator(before), new_kinds, confidence, random_state=seed)
    adapted.fit(scorer.transform(X), y, scorer.transform(X_traffic))
    told = {
        "learned": adapted.learned_,
        "reason": adapted.reason_,
        "source": traffic.name,
        "rows": len(X_traffic),
        "unknown_at_least": adapted.unknown_at_least_,
        "unknown_share": adapted.unknown_share_,
        "new_kinds": new_kinds,
        "price": adapted.price_,
    }
    result = replace_final(scorer.model, adapted) if adapted.learned_ else scorer.model
    more = {"descent": descent(model, {"adapted": told})}
    save_taught(shared, result, output, scorer.card, more, describe_adaptation(told))
