"""Expectation-maximisation: the steps, the run, and what keeps a run fast, alive and resumable."""
