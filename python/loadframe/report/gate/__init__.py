"""What a gate says: on the terminal, and in files for pipelines."""
