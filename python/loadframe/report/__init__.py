"""Reports on runs and experiments, on the terminal and as one HTML file. The figures come from `analyze`."""
