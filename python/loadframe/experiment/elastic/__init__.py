"""Elastic experiments: triggers, cluster changes and scaling policies under load."""
