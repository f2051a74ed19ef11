"""Errors, units, files and terminal output for all packages."""
