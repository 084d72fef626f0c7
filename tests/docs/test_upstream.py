"""The figures in the text of mteb's pull request are those of the official data."""

import pyarrow.compute as pc
from pages import ROOT

from cxc_eccv.builders.dataset_config import BuildOptions
from cxc_eccv.builders.mteb_layout import SUBSETS, mteb_configs


def test_counts_of_queries_and_positives_are_those_built(real_library):
    qrels = {config.name: config for config in mteb_configs()}
    page = (ROOT / "UPSTREAM.md").read_text()
    for subset, task in SUBSETS.items():
        table = qrels[f"{subset}-qrels"].rows(real_library.split("test"), BuildOptions()).table
        queries = pc.count_distinct(table["query-id"]).as_py()
        assert f"| {task} | {queries:,} | {table.num_rows:,} |" in page
        if subset.startswith("eccv_caption"):
            assert f"{table.num_rows / queries:.1f} {'captions' if subset.endswith('i2t') else 'images'}" in page
