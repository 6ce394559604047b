"""How many components: cells hidden, sizes compared on them, intervals calibrated by them."""

from __future__ import annotations

from gapmix.selection.sizes import Candidate

__all__ = ["Candidate"]
