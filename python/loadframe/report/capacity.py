"""The words and plots of the report on a capacity experiment."""
