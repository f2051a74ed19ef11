"""Importers: convert workloads of other tools to workload files.

The head of the file lists everything that was not imported. Importers download nothing. They run code of an imported
workload only if the user allows it.
"""
