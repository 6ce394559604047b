"""
Multiple imputation in a regression
===================================

How does y depend on a, b and c, when a third of b, c and y was never recorded? A table filled once
gives an answer that looks far too certain. Completing it several times and pooling the results
gives intervals that can be trusted.
"""

# %%
# One hundred and fifty rows. More is missing where a is large. As a is always known, the values are
# missing at random.

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from gapmix import GaussianMixtureImputer
from gapmix.multiple import impute_many, pool

NAMES = ["constant", "a", "b", "c"]
TRUE = np.array([1.0, 0.5, -1.0, 0.8])


def make_study(seed, n=150):
    """Return a table a, b, c, y before and after a third of b, c and y is lost."""
    rng = np.random.default_rng(seed)
    a, noise = rng.normal(size=n), rng.normal(size=(n, 3))
    b = 0.6 * a + 0.8 * noise[:, 0]
    c = 0.5 * b + 0.8 * noise[:, 1]
    y = np.column_stack([np.ones(n), a, b, c]) @ TRUE + noise[:, 2]
    full = np.column_stack([a, b, c, y])
    table = full.copy()
    table[:, 1:][rng.random((n, 3)) < 1 / (1 + np.exp(0.9 - 1.2 * a))[:, None]] = np.nan
    return full, table


def regress(table):
    """Return coefficients of y on a, b and c, and their squared standard errors."""
    design = np.column_stack([np.ones(len(table)), table[:, :3]])
    inverse = np.linalg.inv(design.T @ design)
    slopes = inverse @ design.T @ table[:, 3]
    rest = table[:, 3] - design @ slopes
    return slopes, rest @ rest / (len(table) - 4) * np.diag(inverse)


# %%
# Twenty completions, each analysed as if it were the real table, and then pooled.

full, table = make_study(seed=0)
df = len(table) - 4
imputer = GaussianMixtureImputer(n_components=1, max_iter=500)
completions = impute_many(table, 20, imputer=imputer, random_state=0)
estimates, variances = zip(*map(regress, completions), strict=True)
pooled = pool(estimates, variances, df_complete=df, names=NAMES)
print(pooled.summary())

# %%
# For comparison: the table filled once with means, and the complete rows alone.


def interval(table):
    """Return the 95 % intervals of a regression that takes the table at its word."""
    slopes, variances = regress(table)
    reach = stats.t(len(table) - 4).ppf(0.975) * np.sqrt(variances)
    return slopes - reach, slopes + reach


answers = {
    "before values were lost": interval(full),
    "20 completions, pooled": (pooled.low, pooled.high),
    "filled once": interval(imputer.fit_transform(table)),
    "complete rows only": interval(table[~np.isnan(table).any(axis=1)]),
}
looks = [("o", "0.6"), ("D", "#2b3a55"), ("^", "#c47a1c"), ("s", "#7a9bc4")]
fig, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
for number, ((name, (low, high)), (marker, color)) in enumerate(
    zip(answers.items(), looks, strict=True)
):
    place = np.arange(4) + 0.17 * (number - 1.5)
    ax.hlines(place, low, high, color=color, linewidth=2)
    ax.plot((low + high) / 2, place, marker, color=color, markeredgecolor="k", label=name)
for place, value in enumerate(TRUE):
    ax.plot([value, value], [place - 0.4, place + 0.4], color="k", linestyle="--", linewidth=1)
ax.plot([], [], color="k", linestyle="--", linewidth=1, label="truth")
ax.set_yticks(range(4), NAMES)
ax.set(xlabel="coefficient, with its 95 % interval", ylim=(3.6, -0.6))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))

# %%
# One study may be luck. Over many studies, 95 % intervals should contain the truth in 95 % of the
# cases. Here are 40 studies with five completions each.

hits = {"5 completions, pooled": [], "filled once": []}
for seed in range(40):
    _, table = make_study(seed)
    completions = impute_many(table, 5, imputer=imputer, random_state=seed)
    found = pool(*zip(*map(regress, completions), strict=True), df_complete=df)
    low, high = interval(imputer.fit_transform(table))
    hits["5 completions, pooled"].append((found.low < TRUE) & (found.high > TRUE))
    hits["filled once"].append((low < TRUE) & (high > TRUE))
for name, values in hits.items():
    print(f"{name}: intervals hold the truth in {100 * np.mean(values):.0f} % of the cases")
plt.show()
