"""
Filling a table and looking at it
=================================

A table with gaps goes in, a table without gaps comes out. This example looks first at the gaps,
then at how the number of components was chosen, and last at what was filled in.
"""

# %%
# The table: measurements of 178 wines, with one cell in seven removed. Some columns are missing
# together, as when an instrument fails: three of them in a quarter of the rows, three others in a
# tenth.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from gapmix import GaussianMixtureImputer
from gapmix.plots import plot_patterns, plot_selection

truth = load_wine(as_frame=True).data
rng = np.random.default_rng(0)
gaps = rng.random(truth.shape) < 0.05
gaps[np.ix_(rng.random(len(truth)) < 0.25, [5, 6, 7])] = True
gaps[np.ix_(rng.random(len(truth)) < 0.1, [1, 2, 3])] = True
table = truth.mask(gaps)
print(f"{100 * gaps.mean():.0f} % of the cells are missing")

fig, ax = plt.subplots(figsize=(8, 5), layout="constrained")
plot_patterns(table, max_patterns=12, ax=ax)

# %%
# How many components? The imputer hides some known cells, compares several numbers of components by
# how well they fill them, and averages the best mixtures.

imputer = GaussianMixtureImputer(max_components=13, random_state=0)
filled = imputer.set_output(transform="pandas").fit_transform(table)
print(filled.iloc[:3, :6].round(2).to_string())

fig, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
plot_selection(imputer, ax=ax)

# %%
# Filled and measured values. Flavanoids rise with phenols, and so do the filled cells. A filled
# value is a mean, so it varies less than a measured one.

fig, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for ax, (across, down) in zip(
    axes, [("total_phenols", "flavanoids"), ("ash", "alcalinity_of_ash")], strict=True
):
    touched = table[[across, down]].isna().any(axis=1)
    ax.scatter(
        filled.loc[~touched, across],
        filled.loc[~touched, down],
        s=18,
        color="0.75",
        label="both measured",
    )
    ax.scatter(
        filled.loc[touched, across],
        filled.loc[touched, down],
        s=26,
        marker="^",
        color="#2b3a55",
        label="one or both filled",
    )
    ax.set(xlabel=across, ylabel=down)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].legend(frameon=False)

# %%
# Here we know the true values, so we can compute the error. It is in standard deviations of the
# columns; filling in the mean would give 1.

error = ((filled - truth) / truth.std()).to_numpy()[gaps]
print(f"root mean square error {np.sqrt(np.mean(error**2)):.2f} standard deviations")
plt.show()
