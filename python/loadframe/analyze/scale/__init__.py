"""Analysis of scale experiments."""
