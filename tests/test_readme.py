"""The README's example runs and prints what the README says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_example_prints_what_the_readme_shows():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    shown = re.search(r"```text\n(.*?)```", README, re.DOTALL).group(1)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == shown


def test_named_files_exist():
    for name in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (Path(__file__).parent.parent / name).exists(), name
