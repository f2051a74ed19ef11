"""Importers: workloads in the formats of other tools, made into workload files of this one.

They read files and make text. What a format has and the workload language does not is named in that text, never
silently dropped. Nothing is downloaded, and no code of an imported workload is run unless that is allowed.
"""

from loadframe.workload.importers.imported import Imported
from loadframe.workload.importers.queries import Triple, import_queries
from loadframe.workload.importers.rally import import_rally, parameters_of
from loadframe.workload.importers.ycsb import import_ycsb

__all__ = ["Imported", "Triple", "import_queries", "import_rally", "import_ycsb", "parameters_of"]
