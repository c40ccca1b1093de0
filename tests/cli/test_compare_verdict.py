"""The verdict of a comparison follows the numbers."""

from openset.evaluation import coinciding_methods
from openset.study.comparison import verdict

from ..evaluation.test_compare import method


def test_verdict():
    a = method("A", 0.9, 0.5, 0.7)
    b = method("B", 0.8, 0.4, 0.6)
    c = method("C", 0.5, 0.9, 0.6)
    assert verdict([a, b]).endswith("by more than chance explains.")
    assert verdict([a, b, c]).endswith("cannot tell it from C.")
    assert verdict([a]).startswith("A is the only method, with a normalized accuracy of 0.700 ±")


def test_verdict_claims_no_lead_that_the_spread_does_not_support():
    a, c = method("A", 0.9, 0.5, 0.7), method("C", 0.5, 0.9, 0.6)
    assert verdict([a, c]).startswith("No single method leads. A has the highest mean")


def test_verdict_names_methods_that_coincide():
    twin = method("A", 0.9, 0.5, 0.7)
    twin.name = "D"
    text = verdict([method("A", 0.9, 0.5, 0.7), twin])
    assert "A and D gave the same answer to every sample" in text
    assert coinciding_methods([twin, method("B", 0.8, 0.4, 0.6)]) == []
