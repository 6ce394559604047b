"""Which rows have gaps alike, what solving them costs, and how they are laid out for it."""

from gapmix.plan.forests import TreeOptions
from gapmix.plan.planner import Plan

__all__ = ["Plan", "TreeOptions"]
