"""Write five of scikit-learn's bundled tables, with holes, as CSV.

A hole is an empty cell.  Exactly a fixed share of the cells is removed, the
cells drawn uniformly without replacement; a draw that would empty a whole row
or a whole column is thrown away and drawn again.  Numbers are written with
repr, so reading them back as floats gives the same bits.
"""

from pathlib import Path

import numpy as np
from sklearn import datasets

HERE = Path(__file__).resolve().parent


def tables():
    """Yield name, column names, values, share of holes, seed."""
    iris = datasets.load_iris()
    yield "iris", iris.feature_names, iris.data, 0.20, 101
    wine = datasets.load_wine()
    yield "wine", wine.feature_names, wine.data, 0.20, 102
    diabetes = datasets.load_diabetes(scaled=False)
    yield "diabetes", diabetes.feature_names, diabetes.data, 0.20, 103
    linnerud = datasets.load_linnerud()
    yield (
        "linnerud",
        [*linnerud.feature_names, *linnerud.target_names],
        np.hstack([linnerud.data, linnerud.target]),
        0.10,
        104,
    )
    cancer = datasets.load_breast_cancer()
    yield "breast_cancer", cancer.feature_names[:10], cancer.data[:, :10], 0.20, 105


def punch(shape, share, seed):
    """A mask, True where a cell is to be removed."""
    rng = np.random.default_rng(seed)
    size = shape[0] * shape[1]
    while True:
        holes = np.zeros(size, dtype=bool)
        holes[rng.choice(size, size=round(share * size), replace=False)] = True
        holes = holes.reshape(shape)
        if not holes.all(axis=1).any() and not holes.all(axis=0).any():
            return holes


def plain(name):
    """A column name of lower-case letters, digits and underscores."""
    name = str(name).lower().replace("(cm)", "").replace("/", "_")
    return "_".join(name.split())


def main():
    for name, columns, values, share, seed in tables():
        values = np.asarray(values, dtype=float)
        holes = punch(values.shape, share, seed)
        lines = [",".join(plain(c) for c in columns)]
        for row, gone in zip(values, holes, strict=True):
            lines.append(
                ",".join("" if g else repr(float(v)) for v, g in zip(row, gone, strict=True))
            )
        (HERE / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{name}: {values.shape[0]} x {values.shape[1]}, {holes.sum()} holes")


if __name__ == "__main__":
    main()
