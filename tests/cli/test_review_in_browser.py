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


def review(folder, n_unknown, text):
    """Answer and review a table with three groups of unknowns among known rows."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(c, 0.5, (30, 2)) for c in (0, 10)])
    y = np.repeat(["<b>one</b>", 'two"'], 30)
    pd.DataFrame(X, columns=["u", "v"]).assign(kind=y).to_csv(folder / "train.csv", index=False)
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
        *("--model", folder / "m.skops", "-o", folder / "review.html"),
    )
    return run


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
        schemes = {url.partition(":")[0] for url in browser.requests()}
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
        # Headless Chromium saves to a folder that it is told.
        browser.post(
            "goog/cdp/execute",
            cmd="Browser.setDownloadBehavior",
            params={"behavior": "allow", "downloadPath": str(tmp_path)},
        )
        browser.run("document.getElementById('save').click()")
        for _ in range(100):
            if (tmp_path / "decisions.csv").exists():
                break
            time.sleep(0.1)
        browser.screenshot(tmp_path / "page.png")
        assert browser.run("return document.title") == "Unknown rows of new.csv"
    decisions = pd.read_csv(tmp_path / "decisions.csv", keep_default_na=False)
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
