"""Make the model file of today's format, and what it must answer; run once for each format.

    python tests/data/make_model_files.py

Never run it again for a format that has been released: the file is there to show that what an
older version wrote still loads. `table-v1.safetensors` is what `gapmix fit` wrote of `table-v1.csv`
(--components 2 --one-hot level --missing-values=-9 --bounds second=0:) before it wrote imputers,
`table-v1.filled.csv` what it filled with --std.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

import gapmix
from gapmix.storage.recordfile import SCHEMA

HERE = Path(__file__).parent


def make_table() -> pd.DataFrame:
    rng = np.random.default_rng(2024)
    x = np.round(rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) + [170.0, 70.0, 0.01], 3)
    x[rng.random(x.shape) < 0.2] = np.nan
    table = pd.DataFrame(x, columns=["height", "weight [kg]", "größe"])
    table["Art"] = np.where(table["height"] > 170, "groß", np.where(rng.random(60) < 0.5, "a", "b"))
    table["old"] = pd.array(rng.random(60) < 0.3, dtype="boolean")
    return table.mask(rng.random(table.shape) < 0.1)


def to_lists(table: pd.DataFrame) -> list[list[object]]:
    return [[None if pd.isna(cell) else cell for cell in row] for row in table.to_numpy(object)]


def main() -> None:
    table = make_table()
    mixture = gapmix.GaussianMixture(
        2, random_state=0, shrinkage="auto", max_iter=8, tol=0.0, weights_init=[0.5, 0.5]
    ).fit(table)
    gapmix.save(mixture, HERE / f"mixture-v{SCHEMA}.safetensors")
    probe = table.iloc[:6]
    answers = {
        "probe": to_lists(probe),
        "impute": to_lists(mixture.impute(probe)),
        "score_samples": mixture.score_samples(probe).tolist(),
        "means": mixture.means_.tolist(),
        "probabilities": [table.tolist() for table in mixture.category_probabilities_],
        "levels": [levels.tolist() for levels in mixture.categories_],
        "stop_reason": mixture.stop_reason_,
        "names": list(table.columns),
    }
    text = json.dumps(answers, indent=1, ensure_ascii=True)
    (HERE / f"mixture-v{SCHEMA}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
