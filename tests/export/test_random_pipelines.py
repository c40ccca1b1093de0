"""Random pipelines as ONNX graphs: no other answer, also next to a threshold, but exact ties."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("n_cases", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_the_graph_answers_as_the_model(n_cases):
    from tests.fuzz import fuzz_onnx

    measured = [fuzz_onnx.attack(np.random.default_rng([7, case])) for case in range(n_cases)]
    assert sum(case["points"] for case in measured) > 1000 * n_cases
    assert sum(case["near"] for case in measured) > 100 * n_cases
