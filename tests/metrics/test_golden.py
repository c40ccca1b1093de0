"""The paper's published results, recomputed."""

from fractions import Fraction

import numpy as np
import pytest

from openset.metrics import OpenSetCounts


def test_means_of_both_accuracies_on_all_published_rows(golden_dir):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    results = pd.read_parquet(golden_dir / "paper_raw_results.parquet")
    results = results.astype({"measure": str, "dataset": str, "classifier": str})
    run = ["lenacs", "dataset", "classifier", "experiment"]
    results = results.pivot(index=run, columns="measure", values="result")
    assert len(results) == 13_320

    # A published accuracy is a ratio of counts rounded to 12 digits: find the counts again.
    ratios = [
        [Fraction(value).limit_denominator(200_000) for value in results[name]]
        for name in ("AKS", "AUS")
    ]
    counts = OpenSetCounts(
        hit=np.array([[r.numerator for r in column] for column in ratios]).T,
        predicted=np.zeros((len(results), 2), dtype=int),
        support=np.array([[r.denominator for r in column] for column in ratios]).T,
    )
    for name, measure in (
        ("AKS", counts.accuracy_known()),
        ("AUS", counts.accuracy_unknown()),
        ("NA", counts.normalized_accuracy()),
        ("HNA", counts.harmonic_normalized_accuracy()),
    ):
        np.testing.assert_allclose(measure, results[name], rtol=0, atol=2e-12, err_msg=name)
