"""Plots of the reports."""
