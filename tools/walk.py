"""Walk as a stranger does: install the wheel, then run README's commands and code as they stand.

Everything happens in a folder and an environment of its own, outside the tree. `pip install .` of
the README takes the wheel in `dist/` for the copy of the repository; nothing else is changed.

    python tools/walk.py [PYTHON]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OURS = ("pip ", "gapmix ", "python ")  # the others, such as make, are for a copy of the repository


def steps(readme: str, wheel: str) -> list[list[str]]:
    r"""Return the commands of a README in their order, with its code as `python -c`.

    Examples
    --------
    >>> steps('```\npip install ".[all]"\ngapmix demo  # try it\n```\n', "gapmix.whl")
    [['bash', '-c', 'pip install "gapmix.whl[all]"'], ['bash', '-c', 'gapmix demo  # try it']]
    """
    found = []
    for kind, text in BLOCK.findall(readme):
        if kind == "python":
            found.append(["python", "-c", text])
        elif kind in ("", "console"):
            lines = [line.removeprefix("$ ") for line in text.splitlines()]
            found += [
                ["bash", "-c", re.sub(r'"\.(?=["\[])', lambda _: f'"{wheel}', line)]
                for line in lines
                if line.startswith(OURS)
            ]
    return found


def main() -> None:
    """Run every step in an empty environment; the first that fails ends the walk."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    made_by = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    with tempfile.TemporaryDirectory(prefix="walk-") as name:
        folder = Path(name)
        subprocess.run([made_by, "-m", "venv", folder / "env"], check=True)
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        path = os.pathsep.join([str(folder / "env" / "bin"), os.environ["PATH"]])
        home = {"PATH": path, "HOME": name, "PYTHONWARNINGS": "error::FutureWarning"}
        todo = steps((ROOT / "README.md").read_text(encoding="utf-8"), str(wheel))
        for step in [*todo, ["python", "-m", "gapmix", "--version"]]:
            print("$", step[-1].strip().splitlines()[0], flush=True)
            code = subprocess.run(step, cwd=folder, env={**kept, **home}).returncode
            if code:
                sys.exit(f"Exit code {code} of: {step[-1]}")
    print(f"The README's {len(todo)} steps work with {wheel.name}.")


if __name__ == "__main__":
    main()
