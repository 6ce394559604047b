"""
How sure is a filled cell?
==========================

Every gap has a distribution given the rest of its row. It need not be Gaussian: where two groups
of rows are possible, it has two peaks, and its mean may lie where no value ever is. Intervals and
draws show this; a mean and a standard deviation do not.
"""

# %%
# Two groups of rows: in one, y rises with x, in the other it falls. A third of the values of y are
# missing. There are many rows for two columns, so the priors that protect small tables are off.

import matplotlib.pyplot as plt
import numpy as np

from gapmix import GaussianMixtureImputer

rng = np.random.default_rng(1)
n = 600
x = rng.uniform(0, 4, n)
up = rng.random(n) < 0.6
y = np.where(up, x, -x) + rng.normal(scale=0.4, size=n)
missing = rng.random(n) < 0.33
table = np.column_stack([x, np.where(missing, np.nan, y)])

imputer = GaussianMixtureImputer(n_components=6, shrinkage=0, mean_shrinkage=0, random_state=0).fit(
    table
)
filled, std = imputer.impute_with_std(table)

# %%
# The mean of y given x runs between the branches. Draws fall on the branches, in the right shares.

draws = imputer.sample(table, n_draws=1, random_state=0)[0]
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, values, title in (
    (axes[0], filled, "filled with the mean"),
    (axes[1], draws, "filled with a draw"),
):
    ax.scatter(*table[~missing].T, s=12, color="0.78", label="measured")
    ax.scatter(*values[missing].T, s=20, marker="^", color="#2b3a55", label="filled")
    ax.set(title=title, xlabel="x")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("y")
axes[0].legend(frameon=False, loc="upper left")

# %%
# The distribution of y for one value of x, from many draws, with its 50 % and 90 % intervals. The
# mean lies in the valley.

row = np.array([[3.0, np.nan]])
many = imputer.sample(row, n_draws=20_000, random_state=0)[:, 0, 1]
fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.hist(many, bins=80, density=True, color="0.82", edgecolor="0.6", linewidth=0.4)
for height, coverage, style in ((-0.02, 0.5, "-"), (-0.045, 0.9, (0, (4, 1)))):
    low, high = (float(end[0, 1]) for end in imputer.intervals(row, coverage))
    ax.plot(
        [low, high],
        [height, height],
        linewidth=4,
        linestyle=style,
        color="#2b3a55" if coverage == 0.5 else "#c47a1c",
        label=f"{100 * coverage:.0f} % interval",
        solid_capstyle="butt",
    )
mean = imputer.transform(row)[0, 1]
ax.axvline(mean, color="k", linestyle=":", label="mean")
ax.set(xlabel="y, given x = 3", ylabel="density", yticks=(0, 0.2, 0.4, 0.6))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)

# %%
# Are the intervals right? We know the true values, so we can count how often the intervals contain
# them.

for coverage in (0.5, 0.9):
    low, high = imputer.intervals(table, coverage)
    inside = (low[missing, 1] <= y[missing]) & (y[missing] <= high[missing, 1])
    print(f"{100 * coverage:.0f} % intervals hold {100 * inside.mean():.0f} % of the true values")
plt.show()
