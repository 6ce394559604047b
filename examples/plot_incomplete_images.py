"""
Incomplete images
=================

Handwritten digits, 8 x 8 pixels, each with a square cut out. A mixture that has seen only such
damaged images fills the squares of new ones, and shows where it is unsure.
"""

# %%
# A square of 4 x 4 pixels is cut out of every image, at a random place. The model never sees a
# whole image.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from gapmix import GaussianMixtureImputer

digits = load_digits()
rng = np.random.default_rng(0)
corner = rng.integers(0, 5, size=(len(digits.data), 2))
down, across = np.indices((8, 8))
square = (
    (down >= corner[:, 0, None, None])
    & (down < corner[:, 0, None, None] + 4)
    & (across >= corner[:, 1, None, None])
    & (across < corner[:, 1, None, None] + 4)
).reshape(len(digits.data), 64)
damaged = np.where(square, np.nan, digits.data)
train, test = slice(0, 1400), slice(1400, None)

# %%
# Pixels lie between 0 and 16, so the filled values must, too.

imputer = GaussianMixtureImputer(
    n_components=12,
    bounds=dict.fromkeys(range(64), (0, 16)),
    max_iter=30,
    tol=1e-2,
    random_state=0,
).fit(damaged[train])
filled, std = imputer.impute_with_std(damaged[test])
draw = imputer.sample(damaged[test], random_state=0)[0]

# %%
# From top to bottom: the damaged image, the square filled with the mean, with a draw, how far off
# the mean may be (the darker, the farther), and the truth.

shown = range(8)
rows = {
    "damaged": damaged[test],
    "filled: mean": filled,
    "filled: a draw": draw,
    "standard deviation": std,
    "truth": digits.data[test],
}
fig, axes = plt.subplots(len(rows), len(shown), figsize=(8, 5.4), layout="constrained")
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for ax, number in zip(line, shown, strict=True):
        ax.set_facecolor("#c9d7ea")  # what is cut out
        ax.imshow(
            images[number].reshape(8, 8), cmap="gray_r", vmin=0, vmax=8 if images is std else 16
        )
        edge = corner[test][number][::-1] - 0.5
        ax.add_patch(plt.Rectangle(edge, 4, 4, fill=False, color="#c0392b", linewidth=1.2))
        ax.set(xticks=(), yticks=())
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")

# %%
# The error inside the squares of new images, compared with filling in the mean of each pixel.

cut = square[test]
means = np.nanmean(damaged[train], axis=0)
for name, guess in (("mixture", filled), ("pixel means", np.broadcast_to(means, filled.shape))):
    error = np.sqrt(np.mean((guess - digits.data[test])[cut] ** 2))
    print(f"{name:<12} root mean square error {error:.2f} of 16 grey levels")
low, high = imputer.intervals(damaged[test], 0.9)
inside = ((low <= digits.data[test]) & (digits.data[test] <= high))[cut].mean()
print(f"90 % intervals hold {100 * inside:.0f} % of the true pixels")
plt.show()
