"""Long tests, beyond what `make test` has time for: `python -m trials [SUITE...]`, or `make trials`."""
