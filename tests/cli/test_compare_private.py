"""The verdict of a comparison follows the numbers."""

from openset.cli._compare_page import verdict

from ..evaluation.test_compare import method


def test_verdict():
    a = method("A", 0.9, 0.5, 0.7)
    b = method("B", 0.8, 0.4, 0.6)
    c = method("C", 0.5, 0.9, 0.6)
    assert verdict([a, b]).endswith("by more than chance explains.")
    assert verdict([a, b, c]).endswith("cannot tell it from C.")
    assert verdict([a]).startswith("A leads, with a normalized accuracy of 0.700 ±")
