"""The report on an elastic experiment: its words, its plot over time, its page, its lines on the terminal."""
