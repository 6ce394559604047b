"""What the paper does not say, what was decided here, and why."""

from __future__ import annotations

from typing import NamedTuple


class Decision(NamedTuple):
    """A question that the paper leaves open."""

    question: str
    decided: str
    why: str


DECISIONS = (
    Decision(
        "MNIST: value added to the diagonal",
        "0.001 (ink from 0 to 1)",
        "the deviation of a dead pixel becomes 0.03 ink; varied, for filling and for classifying",
    ),
    Decision(
        "MNIST: constant in place of dropped eigenvalues",
        "their mean",
        "the maximum-likelihood value; the authors' program took the largest; varied",
    ),
    Decision(
        "MNIST: principal components of what",
        "of the covariance matrix itself, as the paper says",
        "the package's default takes them of columns scaled to variance 1, where a pixel at the "
        "border weighs as much as one in the middle; varied",
    ),
    Decision(
        "MNIST: pixel scale, constant pixels",
        "ink divided by 255; constant pixels kept",
        "the loading keeps them from being singular",
    ),
    Decision(
        "MNIST: tolerance, limit",
        "0.1 nats per image (of some 1100), 50 iterations",
        "varied: a tenth of it",
    ),
    Decision(
        "MNIST: weights of components",
        "learned (the paper's footnote 1)",
        "varied: equal weights, as in the paper's equations",
    ),
    Decision(
        "MNIST: stopping on validation images",
        "no: convergence",
        "those images choose the model already",
    ),
    Decision(
        "MNIST: starts of one component",
        "one",
        "k-means with one centre has but one outcome: 138 distinct fits a digit, not 150",
    ),
    Decision(
        'what "naive" is',
        "both: once per row, once per distinct pattern",
        "576 patterns in 4500 rows: the difference alone is up to 7.8 times",
    ),
    Decision(
        "inside naive",
        "Cholesky factors",
        "the authors' program used eigen-decompositions, many times slower",
    ),
    Decision("threads", "one for times", "the paper's machines had one core"),
    Decision(
        "Abalone: coding of sex",
        "two columns (female, infant), missing together",
        "three are collinear, one number orders them; varied",
    ),
    Decision(
        "Abalone: split of the 3133 rows",
        "file order, 2000 then 1133",
        "repeats redraw gaps and all starts, of mixtures and networks, not the split",
    ),
    Decision(
        "Abalone: where gaps are",
        "every input variable of every row, training, validation and test, equally likely",
        "a row may lose everything; gaps of a smaller share are among those of a larger",
    ),
    Decision(
        "Abalone: mixture's own grid",
        "1 to 24 components, loadings 0 to 0.1, two starts each, by validation error as a "
        "regressor; the same mixture fills",
        "one model in both roles, as figure 3 has it; choice by likelihood varied",
    ),
    Decision(
        "Abalone: does filling see the target?",
        "validation and test rows never; training rows both ways",
        "a curve each: with sight of it, training rows are filled unlike test rows",
    ),
    Decision(
        "neighbours: whose, which distance",
        "both readings: training rows that have the value in question, and those that have all "
        "values the row lacks; all inputs before gaps, normalised, without target",
        "the hidden value itself is in that distance: see the verdicts; a further curve uses only "
        "what is observed. Where no row has all, the nearest of those that have most gives what it "
        "has, then the next",
    ),
    Decision(
        "discarding incomplete rows",
        "learners train on complete rows; gaps of validation and test rows have the mean of these",
        "the paper only names it; possible at 10 and 30 % missing, where 860 and 115 rows are left",
    ),
    Decision(
        "network: activation, start, loss, epochs",
        "tanh; uniform within 1/sqrt(fan-in); half squared error plus half decay times squared "
        "weights, biases free; best epoch on validation rows, stopped after 20 without gain",
        "common choices of the time",
    ),
    Decision(
        "kernel ridge: conventions",
        "exp(-norm(x - z)^2 / (2 bandwidth^2)); (1 + scale x.z)^degree; decay added to the Gram "
        "matrix's diagonal; no intercept",
        "bandwidths are spaced wider than the factor in doubt",
    ),
    Decision(
        "shares on the x axis, repeats",
        "0, 10, 30, 50 and 70 %; a draw of gaps and starts of all models anew in every repeat",
        "repeats are told above; the quick profile has three",
    ),
)
