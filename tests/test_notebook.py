"""What notebooks show: estimators at a glance, and progress in the cell."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from tests.smalltables import make_rows

from gapmix import (
    GaussianMixture,
    GaussianMixtureClassifier,
    GaussianMixtureImputer,
    GaussianMixtureRegressor,
    load,
    save,
)
from gapmix.fitting.progress import NotebookHandler, make_handler

X = make_rows(60, 3)
Y = np.nan_to_num(X[:, 0])


def plain(html):
    """Return the text of the summary, cells separated by bars."""
    start = html.index('<div class="gapmix-glance"')
    return re.sub(r"\|+", "|", re.sub(r"<[^>]*>", "|", html[start:]))


def without_ids(html):
    return re.sub(r"sk-container-id-\d+|sk-estimator-id-\d+|sk-global|id=\"[^\"]*\"", "", html)


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianMixture(2, random_state=0),
        GaussianMixtureImputer(random_state=0, max_components=2),
        GaussianMixtureRegressor(2, random_state=0),
    ],
)
def test_a_fitted_estimator_shows_components_gaps_likelihood_solver_and_stop(estimator):
    assert "gapmix-glance" not in estimator._repr_mimebundle_()["text/html"]
    fitted = estimator.fit(X, Y)
    mixture = getattr(fitted, "mixture_", fitted)
    for html in (fitted._repr_html_(), fitted._repr_mimebundle_()["text/html"]):
        text = plain(html)
        averaged = isinstance(fitted, GaussianMixtureImputer)  # of 1 and 2, with 3 in all
        said = "1, 2, averaged; alone, the best has " if averaged else "2, the largest with"
        assert f"|Components|{said}" in text
        assert "|Table|60 rows" in text
        assert f"|Log-likelihood per row|{mixture.history_[-1].log_likelihood:.4f}|" in text
        assert f"|Solver|{mixture.plan_.solver}|" in text
        assert mixture.stop_reason_ in text
        assert type(estimator).__name__ in html[: html.index("gapmix-glance")]  # the diagram
    if isinstance(estimator, GaussianMixtureImputer):
        assert "|Sizes tried|1, 2; kept: " in text


def test_a_classifier_shows_its_classes_as_text():
    labels = np.where(np.arange(60) % 2, "<script>", "b&b")
    html = GaussianMixtureClassifier(1, random_state=0).fit(X, labels)._repr_html_()
    assert "|&lt;script&gt;|1|30 rows" in plain(html)
    assert "<script>" not in html[html.index("gapmix-glance") :]
    many = GaussianMixtureClassifier(1, random_state=0, calibrate=False)
    assert "and 2 more classes" in many.fit(X, np.arange(60) % 12)._repr_html_()


def test_the_share_missing_is_that_of_the_table():
    share = 100 * np.isnan(X).mean()
    assert f"{share:.1f} % missing" in plain(GaussianMixture(1).fit(X)._repr_html_())


def test_pipelines_and_estimators_before_a_fit_look_as_scikit_learn_draws_them():
    imputer = GaussianMixtureImputer(1)
    assert without_ids(imputer._repr_html_()) == without_ids(estimator_html_repr(imputer))
    pipeline = make_pipeline(imputer, StandardScaler()).fit(X)
    assert "GaussianMixtureImputer" in pipeline._repr_html_()


def test_text_is_shown_where_diagrams_are_turned_off():
    with sklearn.config_context(display="text"):
        assert list(GaussianMixture(1).fit(X)._repr_mimebundle_()) == ["text/plain"]
        assert not hasattr(GaussianMixture(1), "_repr_html_")


def test_a_model_from_a_file_shows_itself(tmp_path):
    save(GaussianMixture(2, random_state=0).fit(X), tmp_path / "model")
    assert "|Components|2, " in plain(load(tmp_path / "model")._repr_html_())


# ------------------------------------------------------------------ progress


class Cell:
    """The output of a cell: what is shown, and how often it changed."""

    def __init__(self):
        self.outputs, self.changes = [], 0

    def display(self, content, *, raw, display_id):
        assert raw
        assert display_id
        self.outputs.append(content["text/plain"])
        return self

    def update(self, content, *, raw):
        assert raw
        self.outputs[-1] = content["text/plain"]
        self.changes += 1


def test_lines_that_pass_are_replaced_and_others_stay():
    cell = Cell()
    handler = NotebookHandler(cell.display)
    for passing, text in [
        ("start", "Start 1"),
        *[("iteration", f"iteration {i}") for i in range(500)],
        ("", "1 component"),
        ("start", "Start 1"),
        ("start", "Start 2"),
        *[("iteration", f"iteration {i}") for i in range(7)],
    ]:
        record = logging.LogRecord("gapmix", logging.INFO, "", 0, text, None, None)
        record.passing = passing
        handler.handle(record)
    handler.flush()
    assert cell.outputs == ["1 component\nStart 2\niteration 6"]
    handler.close()
    assert cell.outputs == ["1 component"]
    assert cell.changes < 100  # not one for each of 500 lines


def test_outside_a_notebook_lines_go_to_stderr():
    assert type(make_handler()) is logging.StreamHandler


def test_sizes_are_shown_once_without_logging_set_up(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest has its own
    GaussianMixtureImputer(random_state=0, max_components=2, verbose=1).fit(X)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert re.findall(r"^(\d) components?: error", shown.err, re.MULTILINE) == ["1", "2"]
    logger = logging.getLogger("gapmix")
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]
    assert logger.level == logging.NOTSET
