"""Arrow schemas of the Parquet files, for writing and checking them."""

from collections.abc import Iterable

import pyarrow as pa

from loadframe.record.schema import SAMPLES, SERIES, SERIES_RECORDED, TELEMETRY, Field

_TYPES = {"string": pa.string(), "double": pa.float64(), "int64": pa.int64()}


def _arrow(fields: Iterable[Field]) -> pa.Schema:
    return pa.schema([(field.name, _TYPES[field.type]) for field in fields])


SERIES_SCHEMA = _arrow(SERIES)
SERIES_TYPES = {field.name: _TYPES[field.type] for field in SERIES_RECORDED}
TELEMETRY_SCHEMA = _arrow(TELEMETRY)
SAMPLES_SCHEMA = _arrow(SAMPLES)
