"""`python -m loadframe.store.sim`: a node of a simulated cluster."""

from loadframe.store.sim.server import main

main()
