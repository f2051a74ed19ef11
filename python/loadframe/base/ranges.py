"""Ranges of numbers on the command line and in files. Numbers beyond them are typing errors."""

#: Seeds are unsigned 64-bit numbers.
MOST_SEED = 2**64 - 1
#: Experiments count up from the first seed, one for each block and trial.
MOST_FIRST_SEED = 2**63 - 1
#: Worker threads of a load generator.
MOST_THREADS = 1024
#: Ranks of a load generator.
MOST_RANKS = 100_000
#: Nodes on one machine.
MOST_NODES = 1000
#: Ports of nodes; lower ports are reserved for system services.
FIRST_PORT, LAST_PORT = 1024, 65_535
