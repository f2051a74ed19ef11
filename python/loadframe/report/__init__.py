"""What runs and experiments say, for people: on the terminal and as one HTML file. It computes nothing anew."""
