"""Benchmarks, and the problems they share with the tests."""
