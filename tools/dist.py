"""Build wheel and sdist twice, compare and check them, render the conda recipe, list dependencies.

`make dist` runs this in an environment with the group `dist`, then `tools/walk.py`. Results are in
`dist/`: the wheel, the sdist, and a bill of materials (CycloneDX) of a full installation.
The conda recipe is rendered, not built: that needs the channels of conda.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

from rattler_build import Stage0Recipe, VariantConfig

ROOT = Path(__file__).parents[1]
DIST, AGAIN, INSTALLED = ROOT / "dist", ROOT / "build" / "again", ROOT / "build" / "installed"
MAX_WHEEL = 10**6  # bytes
NEEDED = (
    "Makefile",
    "README.md",
    "LICENSE",
    "docs/index.md",
    "examples/demo.py",
    "tests/conftest.py",
)


def run(*words: object) -> None:
    """Run a command, and end with its exit code if it fails."""
    print("$", *words, flush=True)
    code = subprocess.run([str(word) for word in words], cwd=ROOT).returncode
    if code:
        sys.exit(code)


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file of a folder."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def check_sizes(wheel: Path, sdist: Path) -> None:
    """End with a message if the wheel is too large or the sdist lacks what its tests need."""
    if wheel.stat().st_size > MAX_WHEEL:
        sys.exit(f"{wheel.name} has {wheel.stat().st_size:,} bytes, more than {MAX_WHEEL:,}.")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    if lacking := [name for name in NEEDED if name not in names]:
        sys.exit(f"{sdist.name} lacks {', '.join(lacking)}.")


def check_recipe(version: str) -> None:
    """End with a message if the conda recipe cannot be rendered or is of another version."""
    recipe = Stage0Recipe.from_file(str(ROOT / "conda" / "recipe.yaml"))
    (rendered,) = recipe.render(VariantConfig())
    found = str(rendered.recipe.package.version)
    if found != version:
        sys.exit(f"conda/recipe.yaml has version {found}, the wheel {version}.")


def main() -> None:
    """Build, compare, check, list."""
    for folder in (DIST, AGAIN, INSTALLED):
        shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    run(sys.executable, "-m", "build", "--outdir", AGAIN)
    if digests(DIST) != digests(AGAIN):
        sys.exit(f"Two builds differ: {DIST} and {AGAIN}.")
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    check_sizes(wheel, sdist)
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    tools = Path(sys.executable).parent
    run(tools / "check-wheel-contents", wheel)
    # The authors have no e-mail address.
    run(tools / "pyroma", "--file", "--min", 10, "--skip-tests", "AuthorEmail", sdist)
    check_recipe(wheel.name.split("-")[1])
    venv.create(INSTALLED, with_pip=True)
    python = INSTALLED / "bin" / "python"
    # By name, not by path: the bill would tell where this folder is.
    name = f"gapmix[all]=={wheel.name.split('-')[1]}"
    run(python, "-m", "pip", "install", "--quiet", "--find-links", DIST, name)
    bill = DIST / f"{wheel.name.split('-py3')[0]}.cdx.json"
    run(
        tools / "cyclonedx-py",
        "environment",
        "--output-reproducible",
        "--output-file",
        bill,
        python,
    )
    print(f"Two builds are the same. The wheel has {wheel.stat().st_size / 1000:,.0f} kB.")


if __name__ == "__main__":
    main()
