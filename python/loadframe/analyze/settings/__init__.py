"""Analysis of settings experiments: effects, ranking, confirmation."""
