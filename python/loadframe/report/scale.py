"""The report on a scale experiment: its answer in words, its plots, its page, its lines on the terminal."""
