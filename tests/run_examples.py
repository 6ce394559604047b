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

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot

folder = Path(sys.argv[1])
for example in map(Path, sys.argv[2:]):
    printed = StringIO()
    began = time.thread_time()
    with redirect_stdout(printed):
        runpy.run_path(str(example), run_name="__main__")
    files = []
    for number in pyplot.get_fignums():
        files.append(str(folder / f"{example.stem}_{number}.png"))
        pyplot.figure(number).savefig(files[-1], dpi=70)
    pyplot.close("all")
    record = {"name": example.stem, "seconds": time.thread_time() - began, "figures": files}
    print(json.dumps({**record, "printed": printed.getvalue()}), flush=True)
