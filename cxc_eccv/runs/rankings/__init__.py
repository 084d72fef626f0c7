"""Ranked lists, and the files they come in."""

from cxc_eccv.runs.rankings.json_file import read_rankings_json
from cxc_eccv.runs.rankings.parquet_file import read_rankings_parquet
from cxc_eccv.runs.rankings.ranked_lists import RankedLists
from cxc_eccv.runs.rankings.rankings import RankingsRun
from cxc_eccv.runs.rankings.trec_file import read_trec

__all__ = ["RankedLists", "RankingsRun", "read_rankings_json", "read_rankings_parquet", "read_trec"]
