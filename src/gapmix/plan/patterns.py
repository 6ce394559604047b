"""Distinct missing-value patterns of a table, and the rows that share them."""

from typing import NamedTuple

import numpy as np


class Patterns(NamedTuple):
    """Distinct missing-value patterns and where their rows are."""

    observed: np.ndarray  # (P, d) bool, True where the feature is present
    order: np.ndarray  # (n,) row numbers, rows of one pattern contiguous
    start: np.ndarray  # (P + 1,) rows of pattern p are order[start[p]:start[p + 1]]


def find_patterns(observed: np.ndarray) -> Patterns:
    """Group rows by the set of features they show.

    Rows are compared by the packed bits themselves, never by a hash: two patterns are one only
    if every bit agrees. Patterns come in lexicographic order of their bits and rows of a pattern
    in their original order, so the result depends on the data alone. Cost: O(n d) to pack and one
    sort of n keys of d / 64 words.
    """
    n, d = observed.shape
    keys = _pack(observed)  # (n, words)
    order = _sort_rows(keys)
    sorted_keys = keys[order]
    is_first = np.ones(n, dtype=bool)
    if n:
        is_first[1:] = (sorted_keys[1:] != sorted_keys[:-1]).any(axis=1)
    start = np.append(np.flatnonzero(is_first), n)
    return Patterns(observed[order[start[:-1]]].reshape(-1, d), order, start)


def count_rows(patterns: Patterns) -> np.ndarray:
    """Return the number of rows of each pattern, shape (P,)."""
    return np.diff(patterns.start)


def reorder(patterns: Patterns, sequence: np.ndarray) -> Patterns:
    """Return the same patterns in another sequence, rows moved along."""
    rows = count_rows(patterns)[sequence]
    start = np.concatenate([[0], np.cumsum(rows)])
    place = np.repeat(patterns.start[sequence] - start[:-1], rows)
    place += np.arange(len(place))
    return Patterns(patterns.observed[sequence], patterns.order[place], start)


def _pack(observed: np.ndarray) -> np.ndarray:
    """Pack each row of bits into 64-bit words, shape (n, ceil(d / 64)), most significant first."""
    n, d = observed.shape
    n_words = max(1, -(-d // 64))
    packed = np.zeros((n, 8 * n_words), dtype=np.uint8)
    packed[:, : -(-d // 8)] = np.packbits(observed, axis=1)
    return packed.view(">u8").astype(np.uint64)


def _sort_rows(keys: np.ndarray) -> np.ndarray:
    """Return the stable order that sorts rows of words lexicographically."""
    if keys.shape[1] == 1:
        return np.argsort(keys[:, 0], kind="stable")
    return np.lexsort(keys.T[::-1])
