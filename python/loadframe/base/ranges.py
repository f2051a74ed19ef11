"""How large a number may be that is asked for: what is beyond is a slip of the pen, and is refused at once.

Command line and files refuse by the same ranges.
"""

#: Seeds are numbers of 64 bits without a sign, as the engine draws from them.
MOST_SEED = 2**64 - 1
#: In an experiment each block and trial has a seed of its own, counted on from the one that is given.
MOST_FIRST_SEED = 2**63 - 1
#: Worker threads of a generator; more than any machine has cores.
MOST_THREADS = 1024
#: Ranks that load together.
MOST_RANKS = 100_000
#: Nodes that one machine is asked to start.
MOST_NODES = 1000
#: The ports that a node may have: those below are for the system's own services.
FIRST_PORT, LAST_PORT = 1024, 65_535
