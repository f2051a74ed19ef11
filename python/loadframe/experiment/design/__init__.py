"""Designs: which treatments run, in which order, and how often."""
