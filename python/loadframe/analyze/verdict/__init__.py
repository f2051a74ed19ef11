"""Verdict on a run."""
