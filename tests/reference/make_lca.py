"""Write lca_stepmix.npz: a latent class analysis by StepMix, on rows with gaps.

    python -m venv env && env/bin/pip install stepmix && env/bin/python make_lca.py

Three classes, five categories, a fifth of the cells missing. The best of many starts is stored with
a start near it, so that both programs climb the same hill; components by rising weight.
"""

from pathlib import Path

import numpy as np
import stepmix
from stepmix.stepmix import StepMix

N_LEVELS = (2, 3, 4, 2, 3)

rng = np.random.default_rng(0)
group = rng.choice(3, 600, p=[0.2, 0.3, 0.5])
truth = [rng.dirichlet(np.full(n, 0.4), 3) for n in N_LEVELS]
codes = np.column_stack(
    [[rng.choice(n, p=t[k]) for k in group] for n, t in zip(N_LEVELS, truth, strict=True)]
).astype(float)
codes[rng.random(codes.shape) < 0.2] = np.nan
codes = codes[~np.isnan(codes).all(axis=1)]

model = StepMix(
    n_components=3,
    measurement="categorical_nan",
    n_init=20,
    max_iter=20000,
    abs_tol=1e-14,
    rel_tol=0.0,
    random_state=0,
)
model.fit(codes)
raw = np.asarray(model.get_parameters()["measurement"]["pis"])  # (K, C * most levels)
most = raw.shape[1] // len(N_LEVELS)
tables = [raw[:, j * most : j * most + n] for j, n in enumerate(N_LEVELS)]
order = np.argsort(model.weights_)
probabilities = np.concatenate(tables, axis=1)[order]
start = [0.8 * t + 0.2 / t.shape[1] for t in tables]
np.savez(
    Path(__file__).with_name("lca_stepmix.npz"),
    codes=np.where(np.isnan(codes), -1, codes).astype(np.int64),
    n_levels=np.array(N_LEVELS),
    weights=model.weights_[order],
    probabilities=probabilities,
    log_likelihood=model.score(codes),
    start_weights=np.full(3, 1 / 3),
    start=np.concatenate(start, axis=1)[order],
)
print(stepmix.__name__, model.score(codes), model.weights_[order], probabilities.sum(axis=1))
