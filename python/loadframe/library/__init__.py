"""Public Python interface; `loadframe` exports its names. The command line is a thin layer over it."""
