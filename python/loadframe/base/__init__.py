"""Errors, units, files and terminal output that every part uses."""
