"""Run the examples given as arguments one after the other, in this process, figures to a folder.

Usage: python run_examples.py FOLDER EXAMPLE... Prints a line of JSON for each.
"""

import json
import runpy
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from matplotlib import pyplot


def run(example: Path, folder: Path) -> dict:
    """Return what an example printed, where its figures are, and the time of the processor."""
    printed = StringIO()
    began = time.process_time()
    with redirect_stdout(printed):
        runpy.run_path(str(example), run_name="__main__")
    seconds = time.process_time() - began
    figures = []
    for number in pyplot.get_fignums():
        figures.append(str(folder / f"{example.stem}_{number}.png"))
        pyplot.figure(number).savefig(figures[-1], dpi=70)
    pyplot.close("all")
    return {
        "name": example.stem,
        "seconds": seconds,
        "figures": figures,
        "printed": printed.getvalue(),
    }


if __name__ == "__main__":
    for argument in sys.argv[2:]:
        print(json.dumps(run(Path(argument), Path(sys.argv[1]))), flush=True)
