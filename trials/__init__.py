"""Tests that are too long for `make test`: `python -m trials [SUITE...]`, or `make trials`."""
