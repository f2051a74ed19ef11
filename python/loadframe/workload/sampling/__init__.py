"""Sampling: create a workload whose generated documents follow the distributions of real ones.

`documents` reads samples from files, `profile` describes them, `schema` copies or infers the collection's definition,
and `sampled` puts the workload together. Sampled values are replaced by pseudonyms unless the user keeps them.
"""

from loadframe.workload.sampling.profile import Profile
from loadframe.workload.sampling.sampled import Query, Source, of_mapping, of_schema, workload

__all__ = ["Profile", "Query", "Source", "of_mapping", "of_schema", "workload"]
