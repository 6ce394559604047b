"""A report on a table, the model fitted to it and what was filled: one file that explains itself.

`pip install "gapmix[report]"` brings what it needs, jinja2 and matplotlib.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from gapmix.estimators.levels import dict_levels
from gapmix.report.page import compose, require_report
from gapmix.report.subject import Subject, as_imputer
from gapmix.storage.atomicfile import Path, replace_file

__all__ = ["write_report"]


def write_report(
    estimator: Any,
    X: Any,
    path: Path,
    *,
    title: str = "a table",
    feature_names: Sequence[str] | None = None,
    random_state: int = 0,
) -> None:
    """Write a report on a fitted estimator and its table as one HTML file.

    Parameters
    ----------
    estimator : GaussianMixtureImputer or GaussianMixture
        Fitted.
    X : array-like or data frame of shape (n_samples, n_features)
        The table that it was fitted to, or another one with the same columns.
    path : str or path
        The file; it appears complete or not at all.
    title : str, default='a table'
        What the table is called.
    feature_names : sequence of str, default=None
        Names of the columns; a data frame has its own.
    random_state : int, default=0
        Seed of the cells that are hidden and of the values that are drawn for the report.

    Notes
    -----
    To measure how good the filling is, imputers with the same settings are fitted to parts of the
    table, which takes some seconds. The page includes its pictures, loads nothing and runs no
    script.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> import numpy as np
    >>> from gapmix import GaussianMixtureImputer
    >>> from gapmix.report import write_report
    >>> X = load_iris().data.copy()
    >>> X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    >>> imputer = GaussianMixtureImputer(2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "report.html"
    ...     write_report(imputer, X, path, title="iris")
    ...     "What was missing in iris" in path.read_text(encoding="utf-8")
    True
    """
    require_report()
    imputer = as_imputer(estimator)
    x = estimator._read(X)
    own = getattr(estimator, "feature_names_in_", [f"column {j + 1}" for j in range(x.shape[1])])
    names = [str(name) for name in (own if feature_names is None else feature_names)]
    if len(names) != x.shape[1]:
        raise ValueError(f"feature_names has {len(names)} names; X has {x.shape[1]} columns.")
    digest = hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()
    subject = Subject(
        imputer,
        x,
        names,
        str(title),
        int(random_state),
        provenance=(("Checksum", f"SHA-256 {digest} of the values, as doubles row by row"),),
        levels={j: [str(v) for v in each.tolist()] for j, each in dict_levels(estimator).items()},
    )
    write_page(subject, path)


def write_page(subject: Subject, path: Path) -> int:
    """Write the report on a subject; return its size in bytes."""
    page = compose(subject).encode("utf-8", "replace")
    replace_file(path, [page])
    return len(page)
