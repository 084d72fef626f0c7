"""Reports made of the values of their queries."""

import numpy as np
import pyarrow as pa

from cxc_eccv.comparison import ScoredReport
from cxc_eccv.report import Report
from cxc_eccv.report.files import PER_QUERY_SCHEMA
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance

DATA = {"edition": "official", "version": "1", "fingerprint": "f", "files": {"karpathy": "k", "sts": "s"}}


def rows(key, queries, values, clusters):
    task, direction, metric = key.split("/")
    names = [[name] * len(queries) for name in (task, direction, metric)]
    nulls = pa.nulls(len(queries))
    columns = [np.asarray(queries), *names, np.asarray(values, float), nulls, np.asarray(clusters), nulls]
    return pa.table(columns, PER_QUERY_SCHEMA.names).cast(PER_QUERY_SCHEMA)


def scored(name, per_key, *, data=DATA, split="test", parameters=None, extra=(), **facts):
    """A report whose values are the means or medians of the given queries: key to (query ids, values, images)."""
    results = []
    for key, (queries, values, _) in per_key.items():
        task, direction, metric = key.split("/")
        value = float(np.median(values) if metric == "median_rank" else np.mean(values))
        results.append(Result(task, direction, metric, value, len(queries), parameters=parameters or {}))
    table = pa.concat_tables([rows(key, *columns) for key, columns in per_key.items()])
    provenance = {"split": split, "data": data, **facts}
    return ScoredReport.of(name, Report((*results, *extra), {}, from_json(Provenance, provenance), table))
