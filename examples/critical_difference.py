"""Critical-difference diagrams of the paper
=========================================

Six diagrams from its published results. OSSVM is the control of a Bonferroni-Dunn test; the red bar
along the axis covers the methods with no statistical difference from it. In the published files the
names of the two F-measures are exchanged; the titles here are the true ones. The script needs those
files and says so where they are missing.
"""

import json
import os
from pathlib import Path

import matplotlib.pyplot as plt
from _common import parser, save

from openset.plots import CriticalDifferenceDisplay

NAMES = {
    "ssvm": "OSSVM",
    "svm": "SVM",
    "ocsvm": "OCSVM",
    "svdd": "SVDD",
    "svmdbc": "DBC",
    "onevset": "1VS",
    "wsvm": "W-SVM",
    "pisvm": "PI-SVM",
    "evm": "EVM",
}
# true name -> name in the published files
MEASURES = {
    "Normalized accuracy (NA)": "NA",
    "Harmonic normalized accuracy (HNA)": "HNA",
    "Macro open-set F-measure (OSFM macro)": "FMmacro",
    "Micro open-set F-measure (OSFM micro)": "FMmicro",
    "Macro F-measure with unknown (FM macro)": "OSFMmacro",
    "Micro F-measure with unknown (FM micro)": "OSFMmicro",
}


def main():
    """Draw the diagrams, or say what is missing."""
    arguments = parser(__doc__).parse_args()
    shared = os.environ.get("OPENSET_SHARED")
    path = Path(shared or ".", "golden", "paper_ranks.json")
    if not shared or not path.is_file():
        print("skipped: set OPENSET_SHARED to the folder that holds golden/paper_ranks.json")
        return
    ranks = json.loads(path.read_text("utf-8"))["ranks"]["open_set_grid_search_O"]
    figure, axes = plt.subplots(3, 2, figsize=(11, 7), layout="constrained")
    for ax, (title, published) in zip(axes.flat, MEASURES.items(), strict=True):
        result = ranks[published]
        average = {NAMES[key]: rank for key, rank in result["average_ranks"].items()}
        # The paper's critical difference, from the tabulated 2.724; from_ranks has the exact 2.734.
        display = CriticalDifferenceDisplay(
            ranks=average, control="OSSVM", critical_difference=result["CD"]
        ).plot(ax=ax)
        ax.set_title(title)
        print(f"{title}: not different from OSSVM: {', '.join(display.not_different)}")
    save(figure, arguments.output, dpi=100)


# sphinx_gallery_thumbnail_path = '../tests/plots/baseline/critical_difference.png'
if __name__ == "__main__":
    main()
