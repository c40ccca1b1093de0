"""The review page in headless Chromium: names are given, saved and learned; texts stay texts."""

import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from openset import OpenSetSVC
from openset.cli import app
from openset.persistence import load_model, save_model

from .test_page_in_browser import CHROMEDRIVER, CHROMIUM, LAPTOP, PHONE, open_browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and CHROMEDRIVER), reason="no chromium with chromedriver"),
]

NASTY = [
    "</script><script>document.title = 'taken over'</script>",
    "<img src=x onerror=\"document.title = 'taken over'\">",
    "\"double\" and 'single' quotes & <b>tags</b>, commas\nand lines",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    "x" * 10_000,
]
LABEL = '<script>"new", class</script> \u05e9'


# Keys as WebDriver names them.
ENTER, ESCAPE, DOWN, SHIFT = "\ue007", "\ue00c", "\ue015", "\ue008"


def review(folder, n_unknown, text, *more):
    """Answer and review a table with three groups of unknowns among known rows."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(c, 0.5, (30, 2)) for c in (0, 10)])
    y = np.repeat(["<b>one</b>", 'two"'], 30)
    train = pd.DataFrame(X, columns=["u", "v"]).assign(kind=y)
    train["text"] = [f"<i>trained</i> {k}" for k in range(1, len(train) + 1)]
    train.to_csv(folder / "train.csv", index=False)
    model = OpenSetSVC(gamma=1.0, C=8.0).fit(X, y)
    card = {"data": {"features": ["u", "v"], "target": "kind"}}
    save_model(model, folder / "m.skops", card)
    centers = np.repeat([[30, 30], [-30, 30], [30, -30]], -(-n_unknown // 3), axis=0)[:n_unknown]
    new = np.vstack([rng.normal(0, 0.4, (100, 2)), centers + rng.normal(size=centers.shape)])
    table = pd.DataFrame(new, columns=["u", "v"])
    table["text"] = [text[k % len(text)] for k in range(len(table))]
    table.to_csv(folder / "new.csv", index=False)

    def run(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == 0, result.output

    run("predict", folder / "m.skops", folder / "new.csv", "-o", folder / "answers.csv")
    run(
        *("review", folder / "answers.csv", "--data", folder / "new.csv", "--text", "text"),
        *("--model", folder / "m.skops", "-o", folder / "review.html", *more),
    )
    return run


def press(browser, *keys):
    """Press and release keys one after the other; a name is typed letter by letter."""
    steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
    browser.post("actions", actions=[{"type": "key", "id": "keys", "actions": steps}])


def drag(browser, *places, keys=()):
    """Move the pressed mouse over the map, from place to place in shares of its sides."""
    browser.run("document.getElementById('map').scrollIntoView({block: 'center'})")
    left, top, width, height = browser.run(
        "const r = document.getElementById('map').getBoundingClientRect();"
        "return [r.left, r.top, r.width, r.height]"
    )
    moves = [
        {"type": "pointerMove", "x": round(left + x * width), "y": round(top + y * height)}
        for x, y in places
    ]
    down, up = ({"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp"))
    steps = [moves[0], down, *moves[1:], up]
    held = [{"type": "keyDown", "value": key} for key in keys]
    held += [{"type": "pause"}] * (len(steps) - len(held))
    held += [{"type": "keyUp", "value": key} for key in keys]
    mouse = {"type": "pointer", "id": "mouse", "actions": steps}
    browser.post("actions", actions=[{"type": "key", "id": "keys", "actions": held}, mouse])


def save_to(browser, folder):
    """Let headless Chromium save to a folder."""
    browser.post(
        "goog/cdp/execute",
        cmd="Browser.setDownloadBehavior",
        params={"behavior": "allow", "downloadPath": str(folder)},
    )


def decisions_in(folder):
    """The file that the page saves, once it is there."""
    for _ in range(100):
        if (folder / "decisions.csv").exists():
            return pd.read_csv(folder / "decisions.csv", keep_default_na=False)
        time.sleep(0.1)
    raise AssertionError("decisions.csv was not saved")


def type_name(browser, selector, name):
    browser.post(
        "execute/sync",
        script="const f = document.querySelector(arguments[0]); f.value = arguments[1];"
        "f.dispatchEvent(new Event('change'))",
        args=[selector, name],
    )


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_name_save_learn(size, tmp_path):
    run = review(tmp_path, 300, NASTY)
    with open_browser(tmp_path / "profile", *size) as browser:
        browser.post("url", url=(tmp_path / "review.html").as_uri())
        assert browser.run("return document.title") == "Unknown rows of new.csv"
        assert browser.log("browser") == []
        schemes = {url.partition(":")[0] for url in browser.requests()} - {"chrome-untrusted"}
        assert schemes <= {"file", "data", "chrome"}
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        assert browser.run("return document.querySelectorAll('.sample b, .sample img').length") == 0
        browser.run("document.querySelectorAll('article > button').forEach(b => b.click())")
        shown = browser.run(
            "return [...document.querySelectorAll('.what > div:first-child')]"
            ".map(e => e.textContent)"
        )
        assert set(shown) == set(NASTY)
        type_name(browser, "#group0 header input", LABEL)
        type_name(browser, "#group1 header input", "second")
        browser.run("document.querySelector('#group2 header button').click()")
        # One sample of the second group belongs to a known class, and is split off.
        row = browser.run("return samples.row[groups[1].members[0]]")
        type_name(browser, "#group1 .sample input", 'two"')
        save_to(browser, tmp_path)
        browser.run("document.getElementById('save').click()")
        decisions = decisions_in(tmp_path)
        browser.screenshot(tmp_path / "page.png")
        assert browser.run("return document.title") == "Unknown rows of new.csv"
    assert decisions.decision.value_counts().to_dict() == {"new": 199, "junk": 100, "class": 1}
    assert decisions.loc[decisions.decision == "class", "row"].tolist() == [row]
    assert set(decisions.label) == {LABEL, "second", 'two"', ""}
    run(
        *("learn", tmp_path / "m.skops", "--decisions", tmp_path / "decisions.csv", "--data"),
        *(tmp_path / "train.csv", tmp_path / "new.csv", "-o", tmp_path / "m2.skops"),
    )
    model = load_model(tmp_path / "m2.skops")
    assert set(model.classes_) == {"<b>one</b>", 'two"', LABEL, "second"}


def test_ten_thousand_unknowns_load_in_three_seconds(tmp_path):
    review(tmp_path, 10_000, ["a text of the usual length, say"])
    with open_browser(tmp_path / "profile", *LAPTOP) as browser:
        browser.post("url", url=(tmp_path / "review.html").as_uri())
        assert browser.run("return samples.row.length") == 10_000
        took = browser.run(
            "const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd"
        )
        assert 0 < took < 3000
        browser.run("document.querySelector('#group0 > button').click()")
        assert browser.run("return document.querySelectorAll('#group0 .sample').length") == 50
        start = time.perf_counter()
        type_name(browser, "#group0 header input", "first")
        assert time.perf_counter() - start < 1


def test_a_hundred_rows_by_keyboard_alone(tmp_path):
    run = review(tmp_path, 330, ["some text"])
    with open_browser(tmp_path / "profile", *LAPTOP) as browser:
        browser.post("url", url=(tmp_path / "review.html").as_uri())
        save_to(browser, tmp_path)
        state = "return document.getElementById('state').textContent"
        n_unknown = browser.run("return samples.row.length")
        assert browser.run("return groups.filter(g => !g.small).length") == 3
        # The first row of the first group gets a name, and the next undecided row the focus.
        press(browser, "j", "j", "n", *"first", ENTER)
        assert browser.run(state).startswith(f"1 of {n_unknown} decided, 1 new classes")
        assert browser.run("return document.activeElement.dataset.index") == str(
            browser.run("return groups[0].members[1]")
        )
        press(browser, "j", "k", "n", *"no", ESCAPE)  # neither a move nor Escape decides
        assert browser.run(state).startswith("1 of")
        press(browser, "1", "x")  # the first name given, then junk
        assert browser.run("return [...decisions.sample.values()].map(d => d.label)") == [
            *("first", "first", "")
        ]
        press(browser, "u", "u")
        assert browser.run(state).startswith("1 of")
        # A hundred members of the group, one by one: new names, a class, and three times junk.
        browser.run("document.querySelector('#group0 > .more').focus()")
        press(browser, ENTER, "j")
        count = 1
        for k in range(99):
            stop = browser.run("return document.activeElement.className")
            if "more" in stop:  # the keyboard reaches the button between the pages, too
                press(browser, ENTER)
            if k in (10, 20, 30):
                press(browser, "x")
            elif k == 40:
                press(browser, "n", *'two"', ENTER)
            elif k == 50:
                press(browser, DOWN, " ", "c")  # a selection that is given up again
                press(browser, "k", "n", *"second", ENTER)
            else:
                press(browser, "3" if k > 50 and k % 2 else "1")
            count += 1
            assert browser.run(state).startswith(f"{count} of {n_unknown} decided")
        assert count == 100
        browser.screenshot(tmp_path / "keyboard.png")
        press(browser, "s")
        decisions = decisions_in(tmp_path)
        assert browser.log("browser") == []
    assert len(decisions) == 100
    counts = decisions.decision.value_counts().to_dict()
    assert counts == {"new": 96, "junk": 3, "class": 1}
    assert set(decisions.label) == {"first", "second", 'two"', ""}
    run(
        *("learn", tmp_path / "m.skops", "--decisions", tmp_path / "decisions.csv", "--data"),
        *(tmp_path / "train.csv", tmp_path / "new.csv", "-o", tmp_path / "m2.skops"),
    )
    assert set(load_model(tmp_path / "m2.skops").classes_) >= {"first", "second"}


def test_names_outlive_the_page_until_they_are_saved(tmp_path):
    review(tmp_path, 300, ["some text"])
    page = (tmp_path / "review.html").as_uri()
    given = "return [...decisions.group].map(([g, d]) => [g, d.label])"
    with open_browser(tmp_path / "profile", *LAPTOP) as browser:
        browser.post("url", url=page)
        type_name(browser, "#group0 header input", LABEL)
        browser.run("document.querySelector('#group1 header button').click()")
        browser.post("url", url=page)
        assert browser.run(given) == [[0, LABEL], [1, ""]]
        field = "return document.querySelector('#group0 header input').value"
        assert browser.run(field) == LABEL
        assert browser.run("return document.title") == "Unknown rows of new.csv"
        press(browser, "u")  # one undo takes back what an earlier visit decided
        assert browser.run(given) == []
        type_name(browser, "#group0 header input", "first")
        save_to(browser, tmp_path)
        press(browser, "s")
        decisions_in(tmp_path)
        browser.post("url", url=page)
        assert browser.run(given) == []
        # What another page left there breaks nothing.
        for bad in ('{"sample": 7}', "no JSON", '{"group": [["a", 1]], "x": [[0, "y"]]}', "3"):
            browser.run(f"localStorage.setItem(KEY, {bad!r})")
            browser.post("url", url=page)
            assert browser.run(given) == []
            assert browser.run("return document.querySelectorAll('.item').length") > 0
        assert browser.log("browser") == []


def test_the_map_selects_rows_for_one_name(tmp_path):
    review(tmp_path, 300, ["some text"])
    chosen = "return [...selected].map(i => samples.group[i])"
    with open_browser(tmp_path / "profile", *LAPTOP) as browser:
        browser.post("url", url=(tmp_path / "review.html").as_uri())
        places = browser.run(
            "return groups.filter(g => !g.small).map(g => g.members.map(i => "
            "onMap(samples.place[i])).map(([x, y]) => [x / map.width, y / map.height]))"
        )
        groups = [np.array(place) for place in places]
        assert len(groups) == 3
        low, high = groups[1].min(axis=0) - 0.02, groups[1].max(axis=0) + 0.02
        around = [low, (high[0], low[1]), high, (low[0], high[1])]
        drag(browser, *np.clip(around, 0.001, 0.999))
        assert set(browser.run(chosen)) <= {1, -1}
        n_selected = browser.run("return selected.size")
        assert n_selected == len(groups[1])
        browser.screenshot(tmp_path / "lasso.png")
        press(browser, *"around", ENTER)  # the field for the name has the focus
        assert browser.run("return selected.size") == 0
        assert browser.run("return groups[1].members.every(i => decisionOf(i).label === 'around')")
        drag(browser, groups[0][0], groups[0][0])  # a click
        assert browser.run(chosen) == [0]
        drag(browser, groups[2][0], groups[2][0], keys=[SHIFT])
        assert sorted(browser.run(chosen)) == [0, 2]
        browser.screenshot(tmp_path / "click.png")
        corners = np.array([(u, v) for u in (0.01, 0.99) for v in (0.01, 0.99)])
        far = [np.abs(np.vstack(groups) - corner).max(axis=1).min() for corner in corners]
        empty = corners[np.argmax(far)]
        drag(browser, empty, empty)
        assert browser.run(chosen) == []
        press(browser, "u")  # all rows of one name at once
        assert browser.run("return decisions.sample.size") == 0
        assert browser.log("browser") == []


def test_the_most_similar_training_row_is_shown(tmp_path):
    review(tmp_path, 30, ["some text"], "--train", tmp_path / "train.csv")
    with open_browser(tmp_path / "profile", *LAPTOP) as browser:
        browser.post("url", url=(tmp_path / "review.html").as_uri())
        told = browser.run(
            "return [...document.querySelectorAll('.sample')].map(e => "
            "[samples.similar[e.dataset.index], e.querySelector('.like').textContent])"
        )
        assert told
        for row, text in told:
            assert text.endswith(f": <i>trained</i> {row}")
        assert browser.run("return document.querySelectorAll('i').length") == 0
        browser.screenshot(tmp_path / "similar.png")
