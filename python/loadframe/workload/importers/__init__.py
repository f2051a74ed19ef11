"""Importers: convert workloads of other tools to workload files.

The head of the file lists everything that was not imported. Importers download nothing. They run code of an imported
workload only if the user allows it.
"""

from loadframe.workload.importers.imported import Imported
from loadframe.workload.importers.queries import StepTimes, Triple, import_queries
from loadframe.workload.importers.rally import import_rally, parameters_of
from loadframe.workload.importers.ycsb import import_ycsb

__all__ = ["Imported", "StepTimes", "Triple", "import_queries", "import_rally", "import_ycsb", "parameters_of"]
