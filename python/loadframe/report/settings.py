"""The report on a settings experiment: its words, its page, its lines on the terminal."""
