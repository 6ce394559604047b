"""What imputer, regressor and classifier have in common: a mixture whose size finds itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from gapmix.estimators import checks
from gapmix.estimators.glance import GlanceMixin
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.refined import read_refine
from gapmix.estimators.warning import warn_user
from gapmix.fitting.fitted import Fitted
from gapmix.fitting.spec import Running, Spec
from gapmix.selection.choose import Wanted
from gapmix.selection.effort import EFFORTS
from gapmix.selection.sizes import RIDGE
from gapmix.structures import STRUCTURES, suit

# Parameters that mean the same in GaussianMixture and are handed on to it.
HANDED_ON = (
    *("tol", "reg_covar", "max_iter", "n_init"),
    *("shrinkage", "mean_shrinkage", "solver", "accelerate"),
)


@dataclass(eq=False, repr=False)
class MixtureBased(GlanceMixin, BaseEstimator):
    """Parameters of estimators that fit mixtures for a purpose; each documents them."""

    n_components: int | str = "auto"
    _: KW_ONLY
    average: bool = True
    max_components: int | None = None
    effort: str = "default"
    refine: Any = None
    covariance_type: str = "auto"
    n_factors: int | str = "auto"
    tol: float = 1e-3
    reg_covar: float | str = "auto"
    max_iter: int = 100
    n_init: int = 1
    shrinkage: float | str = "auto"
    mean_shrinkage: float | str = "auto"
    solver: Any = "auto"
    accelerate: str | None = "auto"
    categorical_features: Any = "from_dtype"
    random_state: Any = None
    verbose: int = 0
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def rare_levels_(self) -> list[np.ndarray]:
        """Of each category, the levels that components do not tell apart."""
        mixtures = self.mixtures_ if hasattr(self, "mixtures_") else [self.mixture_]
        kept = zip(*(mixture.rare_levels_ for mixture in mixtures), strict=True)
        found = [{level for rare in each for level in rare.tolist()} for each in kept]
        return [
            levels[[level in rare for level in levels.tolist()]]
            for levels, rare in zip(self.categories_, found, strict=True)
        ]

    def _check_parameters(self, *switches: str) -> None:
        """Raise an error about a parameter; `switches` are True or False."""
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            if isinstance(self.n_components, str):
                raise ValueError(
                    f"n_components={self.n_components!r} is not known. Use 'auto' or a whole "
                    "number of at least 1."
                )
            checks.check_positive_int("n_components", self.n_components)
        if self.max_components is not None:
            checks.check_positive_int("max_components", self.max_components)
        checks.check_choice("effort", self.effort, EFFORTS)
        read_refine(self.refine, EFFORTS[self.effort], self.n_components, mixed=True)
        for name in ("average", *switches):
            checks.check_switch(name, getattr(self, name))
        if not checks.is_auto(self.n_factors):
            checks.check_positive_int("n_factors", self.n_factors)
        checks.check(self._spec(), self._running())

    def _spec(self, shape: tuple[int, int] = (1, 1)) -> Spec:
        """Return what is asked for, of a table of this shape."""
        kind = self.covariance_type
        if checks.is_auto(kind):
            kind = suit(*shape)
        return GaussianMixture(
            covariance_type=kind, n_factors=self.n_factors, **self.hand_on()
        )._spec()

    def hand_on(self, reg_covar: float = RIDGE) -> dict[str, Any]:
        """Return the parameters of a mixture; `reg_covar` is what 'auto' found, if it is asked."""
        handed = {name: getattr(self, name) for name in HANDED_ON}
        return handed | {"reg_covar": reg_covar} if checks.is_auto(self.reg_covar) else handed

    def _running(self) -> Running:
        return Running(self.n_jobs, verbose=self.verbose)

    def _wanted(self, shape: tuple[int, int]) -> Wanted:
        """Return what is asked for of a table (n, d), with a seed drawn from `random_state`."""
        return Wanted(
            self._spec(shape),
            self.n_components,
            self.average,
            self.max_components,
            int(check_random_state(self.random_state).randint(2**31)),
            self._running(),
            EFFORTS[self.effort],
            self.n_factors,
            seeks_ridge=checks.is_auto(self.reg_covar) and checks.is_auto(self.n_components),
        )

    def _to_mixture(self, fitted: Fitted, seed: int, reg_covar: float) -> GaussianMixture:
        """Return a fitted mixture as an estimator of its own."""
        mixture = GaussianMixture(
            random_state=seed,
            n_jobs=self.n_jobs,
            verbose=1 if self.verbose in (2, 3) else 0,
            categorical_features=self.categorical_features,
            **self.hand_on(reg_covar),
        )
        structure = STRUCTURES[fitted.parameters.structure]
        mixture.set_params(
            n_components=len(fitted.parameters.weights),
            covariance_type=structure.covariance_type or fitted.parameters.structure,
            n_factors=structure.n_factors or mixture.n_factors,
        )
        n_levels = fitted.n_levels
        d = fitted.parameters.means.shape[1] if n_levels is None else len(n_levels)
        mixture.n_features_in_ = d
        mixture.is_categorical_ = np.zeros(d, dtype=bool) if n_levels is None else n_levels > 0
        mixture.categories_ = list(self.categories_)
        mixture._store(fitted)
        return mixture


def warn_of_stops(advice: Iterable[str]) -> None:
    """Pass on what there is to say of fits that did not converge."""
    for text in advice:
        if text:
            warn_user(text, ConvergenceWarning)
