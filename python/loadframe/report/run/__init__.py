"""The report on a single run: its page, its plots, its lines on the terminal, its documents for programs."""
