"""Discriminants on what a mixture fills: one head for each column that gains by it."""
