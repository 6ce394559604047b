"""
Gaps at prediction time, in a pipeline
======================================

A trained classifier meets rows with gaps, and more gaps than in training. In a pipeline the imputer
comes first. It learns from the training rows only and then fills each new row by itself, whatever
is missing.
"""

# %%
# Breast-cancer measurements. In training, 10 % of them are missing.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gapmix import GaussianMixtureImputer


def punch(table, share, seed):
    """Return a copy with a share of the cells missing."""
    holes = np.random.default_rng(seed).random(table.shape) < share
    return np.where(holes, np.nan, table)


X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
X_train = punch(X_train, 0.1, seed=0)


def make(imputer):
    """Return the pipeline: fill, scale, classify."""
    return make_pipeline(imputer, StandardScaler(), LogisticRegression(C=0.1))


pipelines = {
    "mixture": make(GaussianMixtureImputer(n_components=3, random_state=0)),
    "column means": make(SimpleImputer()),
}
for pipeline in pipelines.values():
    pipeline.fit(X_train, y_train)

# %%
# At prediction, between none and four fifths of the cells are missing. Nothing is fitted again.

shares = [0.0, 0.2, 0.4, 0.6, 0.8]
accuracy = {
    name: [
        np.mean([pipeline.score(punch(X_test, share, seed), y_test) for seed in range(3)])
        for share in shares
    ]
    for name, pipeline in pipelines.items()
}
for name, values in accuracy.items():
    print(f"{name:<14}", "  ".join(f"{value:.3f}" for value in values))

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, values), marker, style in zip(accuracy.items(), "Do", ("-", "--"), strict=True):
    ax.plot(
        np.multiply(100, shares),
        values,
        marker=marker,
        linestyle=style,
        color="#2b3a55" if name == "mixture" else "#c47a1c",
        label=f"gaps filled by {'the ' if name == 'mixture' else ''}{name}",
    )
ax.axhline(max(np.mean(y_test), 1 - np.mean(y_test)), color="0.5", linestyle=":", linewidth=1)
ax.text(
    0, max(np.mean(y_test), 1 - np.mean(y_test)) + 0.005, "always the larger class", color="0.35"
)
ax.set(xlabel="% of the cells missing at prediction", ylabel="accuracy")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 0.08))

# %%
# A row gets the same answer whether it comes alone or among others.

gapped = punch(X_test, 0.4, seed=9)
together = pipelines["mixture"].predict_proba(gapped)[:5]
alone = np.vstack([pipelines["mixture"].predict_proba(row[None]) for row in gapped[:5]])
print("largest difference between alone and together:", np.abs(together - alone).max())
plt.show()
