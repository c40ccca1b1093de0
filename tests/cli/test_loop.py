"""predict --monitor, review and learn: the loop from unknown rows to a new class."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from openset.discovery import group_unknowns
from openset.monitoring import UnknownRateMonitor
from openset.persistence import load_model, read_card

from .conftest import blobs

FEATURES = ["width", "height", "mass"]


def far_blobs(seed, classes="xy"):
    """Rows of other classes, far from those that the model knows."""
    table = blobs(seed=seed, classes=classes)
    table[FEATURES] += np.where(table[["kind"]] == "x", 14.0, -14.0)
    return table


@pytest.fixture
def stream(tmp_path, run, trained):
    """New rows of the known classes and of two others, and their answers."""
    table = pd.concat([blobs(seed=1), far_blobs(2)], ignore_index=True)
    table = table.sample(frac=1, random_state=0, ignore_index=True)
    table.to_csv(tmp_path / "new.csv", index=False)
    result = run("predict", trained.model, tmp_path / "new.csv", "-o", tmp_path / "answers.csv")
    assert result.exit_code == 0, result.stderr
    return table


def data_of(page):
    """The JSON in a review page."""
    found = re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)
    return json.loads(found[1])


def write_decisions(path, rows, labels, kinds):
    lines = [f"{r + 1},{k},{c}" for r, c, k in zip(rows, labels, kinds, strict=True)]
    path.write_text("\n".join(["row,decision,label", *lines]) + "\n")


def test_predict_updates_the_monitor(run, trained, stream, tmp_path):
    state = tmp_path / "state"
    normal, known = tmp_path / "normal.csv", tmp_path / "known.csv"
    blobs(seed=8).to_csv(known, index=False)
    run("predict", trained.model, known, "-o", normal)
    started = run("monitor", state, "--reference", normal, "--alpha", "0.01")
    assert started.exit_code == 0, started.stderr
    assert "no alarm" in started.stdout
    quiet = run("predict", trained.model, known, "-o", tmp_path / "o.csv", "--monitor", state)
    assert quiet.exit_code == 0, quiet.stderr
    assert "monitor: 160 samples" in quiet.stdout
    arguments = ("predict", trained.model, tmp_path / "new.csv", "-o", tmp_path / "o.csv")
    loud = run(*arguments, "--monitor", state, "--json")
    assert loud.exit_code == 3
    told = json.loads(loud.stdout)["monitor"]
    assert told["n_samples"] == 160 + len(stream) and told["alarm_at"] > 160
    # The evidence is that of the scores in the files, in their order.
    other = UnknownRateMonitor(reference=pd.read_csv(normal).known_score, alpha=0.01)
    for path in (normal, tmp_path / "answers.csv"):
        other.update(pd.read_csv(path).known_score)
    assert told["log_evidence"] == pytest.approx(other.log_evidence, rel=1e-9)
    assert run("monitor", state).exit_code == 3
    assert run("monitor", tmp_path / "rate", "--rate", "0.2", "--json").exit_code == 0


def test_monitor_troubles(fails, trained, stream, tmp_path):
    output = tmp_path / "out.csv"
    predict = ("predict", trained.model, tmp_path / "new.csv", "-o", output, "--monitor")
    assert "no monitor file" in fails(*predict, tmp_path / "absent")
    (tmp_path / "other").write_text("no state")
    assert "not the state of a monitor" in fails(*predict, tmp_path / "other")
    assert "new.csv exists" in fails("monitor", tmp_path / "new.csv", "--rate", "0.1")
    assert "must be a number strictly" in fails("monitor", tmp_path / "s", "--rate", "0")
    told = fails("monitor", tmp_path / "s", "--reference", tmp_path / "new.csv")
    assert "no column 'known_score'" in told


def test_review_page(run, trained, stream, tmp_path):
    page = tmp_path / "review.html"
    stream["note"] = "<script>alert(1)</script>"
    stream.to_csv(tmp_path / "new.csv", index=False)
    result = run(
        *("review", tmp_path / "answers.csv", "--data", tmp_path / "new.csv"),
        *("--model", trained.model, "-o", page, "--text", "note"),
    )
    assert result.exit_code == 0, result.stderr
    answers = pd.read_csv(tmp_path / "answers.csv")
    unknown = np.flatnonzero(answers.prediction == "unknown")
    told = data_of(page)
    assert told["samples"]["row"] == (unknown + 1).tolist()
    assert told["samples"]["text"] == ["<script>alert(1)</script>"] * len(unknown)
    assert "<script>alert" not in page.read_text()
    assert "http" not in page.read_text()
    found = group_unknowns(load_model(trained.model), stream[FEATURES].to_numpy())
    large = [len(g["members"]) for g in told["groups"] if not g["small"]]
    assert large == [len(g) for g in found.groups]
    nearest = [told["classes"][near[0]] for near in told["samples"]["near"]]
    reasons = answers.reason[unknown]
    assert all(f"nearest is {c}" in reason for c, reason in zip(nearest, reasons, strict=True))


def test_review_with_images_and_parquet(run, trained, stream, tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    stream["picture"] = "a.png"
    stream.to_parquet(tmp_path / "new.parquet")
    arguments = ("predict", trained.model, tmp_path / "new.parquet", "-o")
    run(*arguments, tmp_path / "answers.parquet")
    result = run(
        *("review", tmp_path / "answers.parquet", "--data", tmp_path / "new.parquet", "--json"),
        *("--model", trained.model, "-o", tmp_path / "r.html", "--image", "picture"),
    )
    assert result.exit_code == 0, result.stderr
    assert set(data_of(tmp_path / "r.html")["samples"]["image"]) == {
        "data:image/png;base64,iVBORw=="
    }


def test_review_troubles(fails, run, trained, stream, tmp_path):
    def told(answers="answers.csv", *more):
        return fails(
            *("review", tmp_path / answers, "--data", tmp_path / "new.csv"),
            *("--model", trained.model, "-o", tmp_path / "r.html", *more),
        )

    assert "no column 'prediction'" in told("new.csv")
    assert "no column 'nte', which is to be shown" in told("answers.csv", "--text", "nte")
    pd.read_csv(tmp_path / "answers.csv")[:5].to_csv(tmp_path / "few.csv", index=False)
    assert "has 5 rows, but the data have 240" in told("few.csv")


def test_learn(run, trained, stream, tmp_path):
    answers = pd.read_csv(tmp_path / "answers.csv")
    unknown = answers.prediction == "unknown"
    new = np.flatnonzero(unknown & (stream.kind == "x"))
    wrong = np.flatnonzero(unknown & (stream.kind == "a"))[:2]
    junk = np.flatnonzero(unknown & (stream.kind == "y"))[:3]
    rows = [*new, *wrong, *junk]
    labels = ['ex, "quoted"'] * len(new)
    labels = [f'"{label.replace(chr(34), chr(34) * 2)}"' for label in labels]
    labels += ["a"] * len(wrong) + [""] * len(junk)
    kinds = ["new"] * len(new) + ["class"] * len(wrong) + ["junk"] * len(junk)
    write_decisions(tmp_path / "decisions.csv", rows, labels, kinds)
    result = run(
        *("learn", trained.model, "--decisions", tmp_path / "decisions.csv", "--data"),
        *(trained.train, tmp_path / "new.csv", "-o", tmp_path / "m2.skops"),
        *("--rename", "b=bee", "--remove", "c"),
    )
    assert result.exit_code == 0, result.stderr
    assert f'new class ex, "quoted": {len(new)} rows' in result.stdout
    assert "renamed b to bee" in result.stdout and "named correctly after" in result.stdout
    model = load_model(tmp_path / "m2.skops")
    assert model.classes_.tolist() == ["a", "bee", "d", 'ex, "quoted"']
    fresh = far_blobs(9, "x")[FEATURES].to_numpy()
    assert np.mean(model.predict(fresh) == 'ex, "quoted"') > 0.6
    (entry,) = read_card(tmp_path / "m2.skops")["descent"]
    import hashlib

    assert entry["parent"] == hashlib.sha256(trained.model.read_bytes()).hexdigest()
    assert entry["changes"]["new"] == {'ex, "quoted"': len(new)}
    # A second step keeps the first in the descent, and predict understands the model.
    again = run(
        *("learn", tmp_path / "m2.skops", "--data", trained.train, tmp_path / "new.csv"),
        *("-o", tmp_path / "m3.skops", "--rename", "d=dee", "--json"),
    )
    assert again.exit_code == 0, again.stderr
    assert len(json.loads(again.stdout)["descent"]) == 2
    told = run("info", tmp_path / "m3.skops").stdout
    assert re.search(r'learned on 20.*\n  new class ex, "quoted": \d+ rows\n', told)
    assert "  renamed d to dee\n" in told and "certificate: 4 of 4 classes" in told
    run("predict", tmp_path / "m3.skops", tmp_path / "new.csv", "-o", tmp_path / "o.csv")
    assert set(pd.read_csv(tmp_path / "o.csv").prediction) <= {
        *("a", "bee", "dee", 'ex, "quoted"', "unknown")
    }


def test_known_unknowns_in_every_command_with_classes(run, fails, trained, stream, tmp_path):
    """evaluate, calibrate and learn take --unknown, as fit and compare do."""
    table = pd.concat([blobs(seed=6), far_blobs(7, "y").assign(kind="oos")], ignore_index=True)
    table.to_csv(tmp_path / "more.csv", index=False)
    more = (tmp_path / "more.csv", "-t", "kind")
    told = run("evaluate", trained.model, *more, "--unknown", "oos", "--json")
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["unknown_labels"] == ["oos"]
    made = run(
        *("calibrate", trained.model, *more, "--unknown", "oos"),
        *("--precision", "0.8", "--unknown-share", "0.2", "-o", tmp_path / "m1.skops"),
    )
    assert made.exit_code == 0, made.stderr
    assert read_card(tmp_path / "m1.skops")["operating_point"]["unknown_rows"] == 40
    for command in (("evaluate",), ("calibrate", "-o", tmp_path / "m1.skops")):
        message = fails(command[0], trained.model, *more, *command[1:], "--unknown", "a")
        assert "has learned 'a' as a class; fit it again with --unknown 'a'" in message
    learn = ("learn", trained.model, "--data", tmp_path / "more.csv", tmp_path / "new.csv")
    learn += ("-o", tmp_path / "m2.skops", "-t", "kind", "--unknown")
    result = run(*learn, "oos")
    assert result.exit_code == 0, result.stderr
    assert "junk rows: 40" in result.stdout
    assert load_model(tmp_path / "m2.skops")[-1].n_known_unknowns_ == 40
    assert "has learned 'a' as a class; take it out with --remove" in fails(*learn, "a")
    assert "no class 'oss'; did you mean 'oos'?" in fails(*learn, "oss")


def test_learn_drops_an_operating_point(run, trained, stream, tmp_path):
    """It was set on rows of the old classes; the message says how to set it again."""
    calibrated = tmp_path / "calibrated.skops"
    blobs(seed=5).to_csv(tmp_path / "held_out.csv", index=False)
    made = run(
        "calibrate", trained.model, tmp_path / "held_out.csv", "-t", "kind", "-o", calibrated
    )
    assert made.exit_code == 0, made.stderr
    rows = np.flatnonzero(stream.kind == "x")
    write_decisions(tmp_path / "d.csv", rows, ["ex"] * len(rows), ["new"] * len(rows))
    result = run(
        *("learn", calibrated, "--decisions", tmp_path / "d.csv", "--data", trained.train),
        *(tmp_path / "new.csv", "-o", tmp_path / "m2.skops"),
    )
    assert result.exit_code == 0, result.stderr
    assert "operating point was dropped" in result.stderr
    assert "operating_point" not in read_card(tmp_path / "m2.skops")
    model = load_model(tmp_path / "m2.skops")
    assert "ex" in model.classes_.tolist()
    far_blobs(9, "x").assign(kind="ex").to_csv(tmp_path / "ex.csv", index=False)
    pd.concat([pd.read_csv(tmp_path / f) for f in ("held_out.csv", "ex.csv")]).to_csv(
        tmp_path / "all.csv", index=False
    )
    again = run(
        *("calibrate", tmp_path / "m2.skops", tmp_path / "all.csv", "-t", "kind"),
        *("-o", tmp_path / "m3.skops"),
    )
    assert again.exit_code == 0, again.stderr
    assert read_card(tmp_path / "m3.skops")["operating_point"]["promise"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("row,decision,label\n1,new,x\n241,new,x\n", "line 3: there is no row '241'.* 1 to 240"),
        ("row,decision,label\n0,new,x\n", "there is no row '0'"),
        ("row,decision,label\none,new,x\n", "there is no row 'one'"),
        ("row,decision,label\n5,class,zebra\n", "line 2, row 5: the model has no class 'zebra'"),
        ("row,decision,label\n5,new,a\n", "row 5: the model has a class 'a' already"),
        ("row,decision,label\n5,new,\n", "row 5: the label is missing"),
        ("row,decision,label\n5,new,unknown\n", "row 5: the label 'unknown' means unknown"),
        ("row,decision,label\n5,keep,x\n", "row 5: the decision 'keep' is none of"),
        ("row,decision,label\n5,new,x\n5,junk,\n", "line 3: row 5 was decided in line 2"),
        ("row,what,label\n5,new,x\n", "no column 'decision'"),
        ("", "no column 'row'"),
    ],
)
def test_bad_decisions_are_refused_by_row(fails, trained, stream, tmp_path, content, message):
    (tmp_path / "d.csv").write_text(content)
    told = fails(
        *("learn", trained.model, "--decisions", tmp_path / "d.csv", "--data"),
        *(trained.train, tmp_path / "new.csv", "-o", tmp_path / "m2.skops"),
    )
    assert re.search(message, told), told


def test_learn_troubles(fails, trained, stream, tmp_path):
    def told(*more, code=1):
        return fails(
            *("learn", trained.model, "--data", trained.train, tmp_path / "new.csv"),
            *("-o", tmp_path / "m2.skops", *more),
            code=code,
        )

    assert "nothing to do" in told(code=2)
    assert "the model has no class 'zebra'" in told("--remove", "zebra")
    assert "write OLD=NEW" in told("--rename", "a", code=2)
    assert "there is a class 'b'" in told("--rename", "a=b")


def test_learn_reads_the_training_table_as_fit_did(run, fails, tmp_path):
    """Categorical columns are coded again, and rows that fit dropped are dropped again."""
    old, new = blobs().assign(colour="red"), far_blobs(2, "x").assign(colour="blue")
    old.loc[old.kind == "a", "colour"] = "blue"
    old.loc[3, "mass"], old.loc[5, "kind"] = np.nan, ""
    paths = [tmp_path / name for name in ("train.csv", "new.csv", "decisions.csv", "m.skops")]
    train, stream, decisions, model = paths
    old.to_csv(train, index=False)
    new.drop(columns="kind").to_csv(stream, index=False)
    write_decisions(decisions, range(len(new)), ["x"] * len(new), ["new"] * len(new))
    told = run("fit", train, "-t", "kind", "-o", model, "--missing", "drop", "--turns", 0)
    assert told.exit_code == 0, told.stderr
    words = ("learn", model, "--data", train, stream, "--decisions", decisions, "-o")
    result = run(*words, tmp_path / "m2.skops")
    assert result.exit_code == 0, result.stderr
    learned = load_model(tmp_path / "m2.skops")
    assert learned.classes_.tolist() == ["a", "b", "c", "d", "x"]
    kept = old[old.mass.notna() & (old.kind != "")]
    X = np.column_stack([kept[FEATURES], kept.colour == "blue", kept.colour == "red"])
    assert learned.score(X, kept.kind) > 0.95
    old.assign(kind="q").to_csv(train, index=False)
    assert "no row of a class that the model has learned in 'kind'" in fails(
        *words, tmp_path / "m3.skops"
    )


def test_learn_forgets_no_class(run, fails, trained, stream, tmp_path):
    """A second round needs the rows of the first in the training table."""
    rows = {kind: np.flatnonzero(stream.kind == kind) for kind in "xy"}
    for kind in "xy":
        n = len(rows[kind])
        write_decisions(tmp_path / f"{kind}.csv", rows[kind], [kind] * n, ["new"] * n)
    first, new = tmp_path / "first.skops", tmp_path / "new.csv"
    words = ("learn", trained.model, "--data", trained.train, new, "--decisions")
    result = run(*words, tmp_path / "x.csv", "-o", first, "--rename", "b=bee")
    assert result.exit_code == 0, result.stderr
    words = ("--decisions", tmp_path / "y.csv", "-o", tmp_path / "second.skops")
    told = fails("learn", first, "--data", trained.train, new, *words)
    assert "the training data have no row of ['bee', 'x'], which the model knows" in told
    table = pd.concat([blobs(), stream.iloc[rows["x"]]]).replace({"kind": {"b": "bee"}})
    table.to_csv(tmp_path / "train2.csv", index=False)
    result = run("learn", first, "--data", tmp_path / "train2.csv", new, *words)
    assert result.exit_code == 0, result.stderr
    learned = load_model(tmp_path / "second.skops")
    assert learned.classes_.tolist() == ["a", "bee", "c", "d", "x", "y"]


def test_review_shows_the_most_similar_training_row(fails, run, trained, stream, tmp_path):
    train = pd.read_csv(trained.train)
    train["note"], train["picture"] = [f"row {k}" for k in range(1, len(train) + 1)], "a.png"
    train.to_csv(tmp_path / "train.csv", index=False)
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    stream["note"], stream["picture"] = "new", "a.png"
    stream.to_csv(tmp_path / "new.csv", index=False)
    words = ("review", tmp_path / "answers.csv", "--data", tmp_path / "new.csv", "--model")
    words += (trained.model, "-o", tmp_path / "r.html", "--train", tmp_path / "train.csv")
    result = run(*words, "--text", "note", "--image", "picture")
    assert result.exit_code == 0, result.stderr
    told = data_of(tmp_path / "r.html")
    similar = {str(k) for k in told["samples"]["similar"] if k > 0}
    assert similar
    assert told["train"]["text"] == {k: f"row {k}" for k in sorted(similar, key=int)}
    assert set(told["train"]["image"].values()) == {"data:image/png;base64,iVBORw=="}
    assert "give --text or --image" in fails(*words, code=2)
    # No image from outside the folder of the training table.
    train.assign(picture="../a.png").to_csv(tmp_path / "train.csv", index=False)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.csv").write_bytes((tmp_path / "train.csv").read_bytes())
    outside = (*words[:-1], tmp_path / "in" / "train.csv", "--image", "picture")
    assert "outside the folder of the table" in fails(*outside)
    train[5:].to_csv(tmp_path / "train.csv", index=False)
    assert "give the table that it was trained on" in fails(*words, "--text", "note")
