"""How well gaps are filled on a given table: hide known cells, fill them, compare."""

from gapmix.evaluate.compare import hide_and_score
from gapmix.evaluate.contenders import default_imputers
from gapmix.evaluate.ranking import Ranked
from gapmix.evaluate.scores import Evaluation, Overall, Score

__all__ = ["Evaluation", "Overall", "Ranked", "Score", "default_imputers", "hide_and_score"]
