"""The words on a fitted scalability model, and its lines on the terminal."""
