"""The measures of a study, under the names of the literature."""

from __future__ import annotations

# Name in the results -> name in openset.metrics. OSFM counts the known classes alone, FM counts
# unknown as one class more; the files published with the paper have the two names exchanged.
MEASURES = {
    "NA": "normalized_accuracy",
    "HNA": "harmonic_normalized_accuracy",
    "OSFMmacro": "open_set_f1_macro",
    "OSFMmicro": "open_set_f1_micro",
    "FMmacro": "f1_with_unknown_macro",
    "FMmicro": "f1_with_unknown_micro",
    "AKS": "accuracy_known",
    "AUS": "accuracy_unknown",
}
