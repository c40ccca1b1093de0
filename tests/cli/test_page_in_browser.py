"""The page of ``openset compare``, opened in headless Chromium by chromedriver's plain HTTP."""

import base64
import json
import re
import shutil
import subprocess
from contextlib import contextmanager
from html import escape
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs
from typer.testing import CliRunner

from openset.cli import app

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMEDRIVER = shutil.which("chromedriver")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
LAPTOP, PHONE = (1280, 800), (390, 844)


class Browser:
    """A session of chromedriver."""

    def __init__(self, address, session):
        self._session = f"{address}/session/{session}"

    def post(self, command, **body):
        return _post(f"{self._session}/{command}", body)

    def run(self, script):
        """The value that a script returns."""
        return self.post("execute/sync", script=script, args=[])

    def log(self, kind):
        """Entries of a log since it was last asked for."""
        return self.post("se/log", type=kind)

    def requests(self):
        """Addresses of everything that was fetched since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path):
        """Write what is in sight to a file."""
        with urlopen(f"{self._session}/screenshot", timeout=60) as answer:
            path.write_bytes(base64.b64decode(json.load(answer)["value"]))


def _post(url, body):
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=120) as answer:
        return json.load(answer)["value"]


@contextmanager
def open_browser(profile: Path, width: int, height: int):
    """A browser whose screen has a size in CSS pixels; its windows cannot be that narrow."""
    driver = subprocess.Popen(
        [CHROMEDRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        started = next(line for line in driver.stdout if "successfully on port" in line)
        (port,) = re.findall(r"on port (\d+)", started)
        address = f"http://127.0.0.1:{port}"
        screen = {"width": width, "height": height, "pixelRatio": 1.0, "touch": False}
        options = {
            "binary": CHROMIUM,
            "args": [*ARGUMENTS, f"--user-data-dir={profile}"],
            "mobileEmulation": {"deviceMetrics": screen},
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = _post(f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
        browser = Browser(address, made["sessionId"])
        try:
            yield browser
        finally:
            urlopen(Request(browser._session, method="DELETE"), timeout=60).close()
    finally:
        driver.terminate()
        driver.wait(timeout=30)
        driver.stdout.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if CHROMIUM is None or CHROMEDRIVER is None:
        pytest.skip("no chromium with chromedriver here")
    folder = tmp_path_factory.mktemp("page")
    path = folder / "page.html"
    X, y = make_blobs(180, n_features=4, centers=6, cluster_std=2.0, random_state=0)
    table = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.array(list("UVWXYZ"))[y])
    table.to_csv(folder / "blobs.csv", index=False)
    arguments = ["--target", "kind", "--repeats", "2", "-o", str(path)]
    result = CliRunner().invoke(app, ["compare", str(folder / "blobs.csv"), *arguments])
    assert result.exit_code == 0, result.output
    return path


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_page_is_readable_and_fetches_nothing(page, size, tmp_path):
    with open_browser(tmp_path / "profile", *size) as browser:
        browser.post("url", url=page.as_uri())
        assert browser.run("return [innerWidth, innerHeight]") == list(size)
        fetched = browser.requests()
        assert page.as_uri() in fetched
        # The page and its figures; the others are of the empty tab that was there before.
        schemes = {url.partition(":")[0] for url in fetched}
        assert schemes <= {"file", "data", "chrome", "chrome-untrusted"}
        assert browser.log("browser") == []  # no message on the console, let alone an error
        # Nothing sticks out of the page, but for what scrolls in a box of its own.
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        sizes = browser.run(
            "return [...document.querySelectorAll('p, li, td, th, code, figcaption')]"
            ".map(e => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(sizes) >= 12
        figures = browser.run(
            "return [...document.images].map(i => [i.complete, i.naturalWidth, i.clientWidth])"
        )
        assert len(figures) == 4  # ranking, two curves, decision regions
        for complete, natural, shown in figures:
            assert complete and natural > 0
            # Letters of 12 points, 16 pixels, are no smaller than 8 on a phone.
            assert shown >= 0.85 * min(size[0], 600)
        # Every link leads to a place on this page.
        assert browser.run(
            "return [...document.links].every(a => document.getElementById(a.hash.slice(1)))"
        )
        browser.screenshot(tmp_path / "page.png")
        assert (tmp_path / "page.png").stat().st_size > 10_000


def test_the_probe_would_notice(tmp_path):
    # A page that does everything wrong, so that the test above is known to look.
    if CHROMIUM is None or CHROMEDRIVER is None:
        pytest.skip("no chromium with chromedriver here")
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<meta name="viewport" content="width=device-width"><div style="width:900px">wide</div>'
        '<img src="http://127.0.0.1:9/x.png"><script>console.error("no")</script>'
    )
    with open_browser(tmp_path / "profile", *PHONE) as browser:
        browser.post("url", url=bad.as_uri())
        assert "http://127.0.0.1:9/x.png" in browser.requests()
        assert any("no" in entry["message"] for entry in browser.log("browser"))
        assert browser.run("return document.documentElement.scrollWidth") >= 900


def test_copied_code_has_neither_prompts_nor_output(tmp_path):
    if CHROMIUM is None or CHROMEDRIVER is None:
        pytest.skip("no chromium with chromedriver here")
    script = Path(__file__).resolve().parents[2] / "docs" / "_static" / "copy.js"
    session = "&gt;&gt;&gt; def f(x):\n...     return x\n...\n&gt;&gt;&gt; f(1)\n1\n"
    blocks = (session, "openset fit a.csv\n  -o m.skops\n")
    page = tmp_path / "page.html"
    page.write_text(
        "".join(f"<div class='highlight'><pre>{block}</pre></div>" for block in blocks)
        + f"<script>{script.read_text()}</script>"
    )
    with open_browser(tmp_path / "profile", *LAPTOP) as browser:
        browser.post("url", url=page.as_uri())
        assert browser.run("return [...document.querySelectorAll('pre')].map(codeOf)") == [
            "def f(x):\n    return x\n\nf(1)",
            "openset fit a.csv\n  -o m.skops",
        ]
        assert browser.run("return document.querySelectorAll('button.copy').length") == 2
        assert browser.log("browser") == []


@pytest.mark.skipif(not (CHROMIUM and CHROMEDRIVER), reason="no chromium with chromedriver")
def test_code_of_the_documentation_is_copied_without_prompts(tmp_path):
    script = Path(__file__).resolve().parents[2] / "docs" / "_static" / "copy.js"
    session = ">>> x = 1\n>>> for i in [x]:\n...     print(i)\n...\n1\n>>> x\n1\n"
    command = "openset fit a.csv   # no >>> prompt\n"
    blocks = [f'<div class="highlight"><pre>{escape(s)}</pre></div>' for s in (session, command)]
    page = tmp_path / "page.html"
    page.write_text(f'<script src="{script.as_uri()}"></script>' + "".join(blocks), "utf-8")
    with open_browser(tmp_path / "profile", *LAPTOP) as browser:
        browser.post("url", url=page.as_uri())
        copied = browser.run("return [...document.querySelectorAll('pre')].map(codeOf)")
        n_buttons = browser.run("return document.querySelectorAll('button.copy').length")
    assert copied == ["x = 1\nfor i in [x]:\n    print(i)\n\nx", command.strip()]
    assert n_buttons == 2
