"""The report on a comparison: its words, its page, its lines on the terminal."""
