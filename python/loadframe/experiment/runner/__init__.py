"""Carry out experiments: sessions, recording, resuming."""
