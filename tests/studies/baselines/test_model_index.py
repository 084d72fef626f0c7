"""Results in the front matter of a trained model's card."""

from cxc_eccv.builders.dataset_config import dataset_configs
from cxc_eccv.hub.leaderboard import leaderboard_tasks
from cxc_eccv.report import Report
from cxc_eccv.studies.trainers.model_card import index_results
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance

KEYS = [*leaderboard_tasks(), "cxc/i2t/median_rank"]


def make_report(edition, **provenance):
    """A report with a made-up value for every task of the leaderboard."""
    results = []
    for key in KEYS:
        task, *direction, metric = key.split("/")
        results.append(Result(task, "".join(direction), metric, 0.5, parameters={}, n_queries=9, low=0.5, high=0.5))
    facts = {"data": {"edition": edition, "version": "1.0.0", "files": {}, "fingerprint": "0"}, "split": "test"}
    return Report(tuple(results), {}, from_json(Provenance, facts | provenance))


def test_index_names_configs_that_exist():
    entries = index_results(make_report("official"), "image-text-retrieval")
    configs = {entry.metric_name: entry.dataset_config for entry in entries}
    assert set(configs) == set(KEYS)
    assert set(configs.values()) <= set(dataset_configs())
    assert configs["cxc/sts/bootstrap_spearman"] == "sts"
    assert configs["cxc/i2t/median_rank"] == configs["cxc/i2t/recall_at_1"]


def test_index_has_no_results_of_the_sample():
    assert not index_results(make_report("sample"), "image-text-retrieval")
    assert not index_results(None, "image-text-retrieval")
