"""Mixtures of any structure: in other units, in fewer columns, of fewer components, united."""

from collections.abc import Sequence

import numpy as np

from gapmix import categories
from gapmix.parameters import Factored, Parameters, factor_matrices
from gapmix.structures import STRUCTURES, name_structure
from gapmix.units import Scaling


def factor(parameters: Parameters) -> Factored:
    """Factor every covariance as a full matrix; a shared one is factored once.

    Raises
    ------
    NotPositiveDefiniteError
        If a pivot is not larger than rounding error.
    """
    matrices = STRUCTURES[parameters.structure].dense(parameters.covariances)
    return factor_matrices(matrices, len(parameters.means))


def dense_covariances(parameters: Parameters) -> np.ndarray:
    """Return the covariances as full matrices, (K, d, d)."""
    n_components, d = parameters.means.shape
    matrices = STRUCTURES[parameters.structure].dense(parameters.covariances)
    return np.broadcast_to(matrices, (n_components, d, d))


def as_full(parameters: Parameters) -> Parameters:
    """Return the same mixture with a full matrix for each component."""
    return parameters._replace(covariances=dense_covariances(parameters), structure="full")


def members(parameters: Parameters, which: Sequence[int]) -> Parameters:
    """Return some components as a mixture of their own."""
    weights = parameters.weights[list(which)]
    total = weights.sum()
    return parameters._replace(
        weights=weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights)),
        means=parameters.means[list(which)],
        covariances=STRUCTURES[parameters.structure].take(parameters.covariances, which),
        categories=categories.take(parameters.categories, which),
    )


def marginal_parameters(parameters: Parameters, columns: np.ndarray) -> Parameters:
    """Return the mixture of some of the columns, the others integrated out."""
    return parameters._replace(
        means=parameters.means[:, columns],
        covariances=STRUCTURES[parameters.structure].marginal(parameters.covariances, columns),
    )


def without_numbers(parameters: Parameters) -> Parameters:
    """Return the mixture with one column of mean 0 and variance 1: see `categories.split_table`."""
    n_components, structure = len(parameters.weights), STRUCTURES[parameters.structure]
    shape = (1 if structure.SHARED else n_components, *structure.shape(1))
    return parameters._replace(means=np.zeros((n_components, 1)), covariances=np.ones(shape))


def without_idle(parameters: Parameters) -> Parameters:
    """Return the mixture without factors that no component has loadings on, if it has factors."""
    structure = STRUCTURES[parameters.structure]
    covariances = structure.drop_idle(parameters.covariances)
    if covariances is parameters.covariances:
        return parameters
    name = name_structure(structure.covariance_type, covariances.shape[2] - 1)
    return parameters._replace(covariances=covariances, structure=name)


def unite(parts: Sequence[Parameters], shares: np.ndarray) -> Parameters:
    """Return the mixture of mixtures: the components of all, weights times their mixture's share.

    A shared covariance is repeated for every component it serves. All have the same structure,
    but for the number of factors: the largest is that of all.
    """
    if len(parts) == 1:
        return parts[0]
    structures = [STRUCTURES[part.structure] for part in parts]
    most = max(structures, key=lambda each: each.n_factors)
    return Parameters(
        np.concatenate([share * part.weights for share, part in zip(shares, parts, strict=True)]),
        np.concatenate([part.means for part in parts]),
        np.concatenate(
            [
                each.widen(each.separate(part.covariances, len(part.means)), most.n_factors)
                for each, part in zip(structures, parts, strict=True)
            ]
        ),
        most.UNITED,
        tuple(
            np.concatenate(each) for each in zip(*(part.categories for part in parts), strict=True)
        ),
    )


def parameters_to_user(parameters: Parameters, scaling: Scaling) -> Parameters:
    """Return the parameters in the user's units."""
    scale = scaling.scale
    return parameters._replace(
        means=parameters.means * scale + scaling.center,
        covariances=STRUCTURES[parameters.structure].rescale(parameters.covariances, scale),
    )


def parameters_to_internal(parameters: Parameters, scaling: Scaling) -> Parameters:
    """Return the parameters in internal units; the inverse of `parameters_to_user`."""
    scale = scaling.scale
    return parameters._replace(
        means=(parameters.means - scaling.center) / scale,
        covariances=STRUCTURES[parameters.structure].rescale(parameters.covariances, 1.0 / scale),
    )
