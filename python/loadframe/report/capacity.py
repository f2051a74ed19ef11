"""Sentences and plots of the report on a capacity experiment."""
