"""From an alarm to ten new intents
================================

A model knows 140 of the 150 intents of CLINC150. Later, queries of the other ten arrive, among
queries that belong to no intent at all. The monitor raises an alarm; the unknown queries are
grouped; a person names the groups (here the true intents do); the model learns them; and we measure
what that did to the old intents, on queries that nobody has used before.

The script needs ``clinc150-minilm.parquet`` in the folder ``OPENSET_DATA``. ``--review`` also
writes the page on which a person would name the groups.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from openset import OpenSetSVC
from openset.datasets import load_dataset
from openset.discovery import Decisions, group_unknowns, review_data, write_review
from openset.evaluation import learn_decisions
from openset.monitoring import UnknownRateMonitor
from openset.plots import EvidenceDisplay

SETTING = {"C": 8.0, "gamma": 2.0, "lam": 0.0}
N_NEW = 10


def main():
    """Watch, look, teach, measure."""
    arguments = argparse.ArgumentParser(description="CLINC150")
    arguments.add_argument("--output", default="clinc150-loop.png", help="figure to write")
    arguments.add_argument("--review", type=Path, help="write the review page to this file")
    arguments.add_argument("--report", type=Path, help="write the table to this file")
    arguments.add_argument("--seed", type=int, default=0, help="which intents are new")
    arguments = arguments.parse_args()
    try:
        bunch = load_dataset("clinc150-minilm")
    except (FileNotFoundError, ValueError, ImportError) as reason:
        print(f"skipped: {reason}")
        return
    X, y, split = bunch.data, bunch.target.astype(str), bunch.split.astype(str)
    rng = np.random.default_rng(arguments.seed)
    new = rng.choice(np.unique(y[split == "train"]), N_NEW, replace=False)
    is_new = np.isin(y, new)
    train = np.flatnonzero((split == "train") & ~is_new)
    model = OpenSetSVC(**SETTING, n_jobs=-1).fit(X[train], y[train])

    # Watch. A week of normal traffic is the reference; then the new intents arrive.
    known = rng.permutation(np.flatnonzero((split == "val") & ~is_new))
    oos = rng.permutation(np.flatnonzero(split == "oos_test"))
    normal, quiet = known[:1400], known[1400:2000]
    busy = rng.permutation(
        np.r_[known[2000:], oos[:500], np.flatnonzero(is_new & (split != "test"))]
    )
    stream = np.r_[rng.permutation(np.r_[quiet, oos[500:530]]), busy]
    reference = np.r_[normal, np.flatnonzero(split == "oos_val")]
    monitor = UnknownRateMonitor(reference=model.known_score(X[reference]))
    monitor.update(model.known_score(X[stream]))
    print(f"{monitor}; the new intents arrive from sample {len(stream) - len(busy) + 1} on")

    # Look. A person would name the groups on the review page.
    found = group_unknowns(model, X[stream])
    print(found)
    if arguments.review:
        data = review_data(
            model, X[stream], texts=bunch.text[stream], train_texts=bunch.text[train]
        )
        write_review(data, arguments.review, "Unknown queries")
    decisions = name_groups(found, y[stream], set(new))

    # Teach, and measure on queries that were not used so far.
    learned = learn_decisions(model, X[train], y[train], X[stream], decisions)
    test, unknown = np.flatnonzero(split == "test"), oos[530:]
    rows = [["", "old intents", "new intents", "out of scope rejected", "NA, old", "NA, new"]]
    for name, estimator in (("before", model), ("after", learned.model)):
        right = estimator.predict(X[test]) == y[test]
        rejected = np.mean(estimator.predict(X[unknown]) == estimator.unknown_label_)
        both = [np.mean(right[~is_new[test]]), np.mean(right[is_new[test]])]
        values = [*both, rejected, *((accuracy + rejected) / 2 for accuracy in both)]
        rows.append([name, *(f"{100 * value:.1f}" for value in values)])
    text = report(monitor, len(stream) - len(busy), found, learned, rows)
    print(text)
    if arguments.report:
        arguments.report.write_text(text + "\n")
    figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
    EvidenceDisplay.from_monitor(monitor, ax=ax)
    ax.axvline(len(stream) - len(busy), color="0.5", label="new intents arrive")
    ax.legend()
    figure.savefig(arguments.output, dpi=100)
    print(f"wrote {arguments.output}")


def name_groups(found, truth, new):
    """What a person does: a group of one new intent gets its name, the rest is left alone."""
    rows, labels = [], []
    for group in found.groups:
        names, counts = np.unique(truth[group.members], return_counts=True)
        name = names[counts.argmax()]
        if name in new and counts.max() >= len(group) / 2:
            rows += group.members.tolist()
            labels += [str(name)] * len(group)
    return Decisions(np.array(rows), ["new"] * len(rows), labels)


def report(monitor, start, found, learned, rows):
    """The results as Markdown."""
    table = "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * 6, *rows[1:]])
    old = learned.report["old"]
    return (
        "# The loop on CLINC150\n\nBy `python examples/clinc150_loop.py --report FILE`. "
        f"Ten of the 150 intents arrive from sample {start + 1:,} on; the alarm is raised at "
        f"sample {monitor.alarm_at:,}. {len(found)} groups are proposed; "
        f"{len(learned.changes['new'])} new intents are named and learned from "
        f"{sum(learned.changes['new'].values()):,} queries.\n\nIn percent, on queries of the test "
        f"set that were neither in the stream nor in training:\n\n{table}\n\n"
        f"`learn_decisions` itself reports {old['before']:.1%} before and {old['after']:.1%} after "
        f"on {old['rows']:,} held-out training queries of the old intents."
    )


# sphinx_gallery_thumbnail_path = 'images/review.png'
if __name__ == "__main__":
    main()
