"""Categories of tables in pieces: which columns they are, their levels, pieces that give codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gapmix.engines.hunting import MOST_VALUES, collect_levels
from gapmix.engines.sources import TEXT, Source, SourceError
from gapmix.estimators.levels import are_numbers, choose_columns, order_levels
from gapmix.fitting.spec import Running


def find_source_categories(
    source: Source, asked: Any, labels: list[str], running: Running
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return which columns are categories, (d,), as `categorical_features` asks, and their levels.

    By type, columns of text, of True and False and of categories are.
    """
    by_type = isinstance(asked, str) and asked == "from_dtype"
    if by_type:
        kinds = source.kinds or ("number",) * source.d
        chosen = np.array([kind != "number" for kind in kinds], dtype=bool)
    else:
        chosen = choose_columns(asked, list(source.names or ()), source.d)
    columns = np.flatnonzero(chosen).tolist()
    if not columns:
        return chosen, []
    found = collect_levels(source, columns, running)
    for j, each in zip(columns, found, strict=True):
        if len(each.values) > MOST_VALUES:
            raise SourceError(
                f"Column {labels[j]} has more than {MOST_VALUES:,} distinct values: too many "
                "for a category. Leave it out."
            )
        texts = [value for value in each.values if isinstance(value, str)]
        if by_type and are_numbers(texts):
            raise ValueError(
                f"Column {labels[j]} holds numbers written as text, like {texts[0]!r}. Convert it, "
                "or name it in categorical_features if it is a category."
            )
    levels = [
        order_levels(list(each.values), each.n_known, labels[j], named=not by_type)
        for j, each in zip(columns, found, strict=True)
    ]
    return chosen, levels


def code_source(
    source: Source, chosen: np.ndarray, categories: Sequence[np.ndarray], labels: list[str]
) -> Source:
    """Return the table with codes in the columns that are categories; other text is refused."""
    for j, kind in enumerate(source.kinds or ()):
        if kind == TEXT and not chosen[j]:
            raise ValueError(
                f"Column {labels[j]} holds text, not numbers. Name it in categorical_features if "
                "it is a category, or leave it out with open_source(..., columns=[...])."
            )
    if not chosen.any():
        return source
    of_columns = dict(zip(np.flatnonzero(chosen).tolist(), categories, strict=True))
    levels = tuple(of_columns.get(j) for j in range(source.d))
    return source._replace(pieces=tuple(piece._replace(levels=levels) for piece in source.pieces))
