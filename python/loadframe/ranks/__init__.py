"""Several processes that load together, over MPI: who they are, how they talk, and what each does in a phase.

It stands on the ground floor: a rank above 0 imports this package and the engine, and nothing else of Loadframe.
"""
