"""The Python examples of the README are run as they stand there, one after the other."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def test_example_is_short():
    assert BLOCKS
    assert all(len(block.splitlines()) <= 12 for block in BLOCKS)


def test_example_runs_and_prints_what_the_readme_says(capsys):
    namespace = {}
    exec(compile(BLOCKS[0], str(README), "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    for block in BLOCKS[1:]:
        exec(compile(block, str(README), "exec"), namespace)
    # Each print() carries its result as a comment.
    promised = re.findall(r"^print\(.*\)\s+# (.*)$", BLOCKS[0], re.MULTILINE)
    assert promised
    assert printed == promised
