"""The report on a strong and a weak scaling experiment together: its words, its page, its lines on the terminal."""
