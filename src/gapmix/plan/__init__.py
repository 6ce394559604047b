"""Which rows have gaps alike, what solving them costs, and how they are laid out for it."""

from __future__ import annotations

from gapmix.plan.planner import Plan, TreeOptions

__all__ = ["Plan", "TreeOptions"]
