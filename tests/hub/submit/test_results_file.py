"""The file of results that a submission writes, and options of it; none of this needs the Hub."""

import pytest
import yaml
from huggingface_hub import EvalResultEntry
from official import BENCHMARK

from cxc_eccv.errors import CxcEccvError, HubConflict
from cxc_eccv.hub.submit import SubmitOptions, merge_results

REVISION = "a" * 40
VALUES = {"eccv_caption_i2t_map_at_r": 0.3125, "eccv_caption_i2t_r_precision": 0.4, "cxc_t2t_recall_at_1": 0.25}


def merge(before, *task_ids):
    entries = [
        EvalResultEntry(
            dataset_id=BENCHMARK,
            task_id=task_id,
            value=VALUES[task_id],
            dataset_revision=REVISION,
            notes="cxc_eccv 0.1.0, data 1.0.0",
        )
        for task_id in task_ids or VALUES
    ]
    return merge_results(before, entries)


THERE = f"""# Results of ours; ask before you change them
- dataset:
    id: other/data  # theirs
    task_id: x
  value: 1  # signed
  verifyToken: signed
  model_revision: abc

- date: 2025-01-01  # in spring
  dataset:
    id: {BENCHMARK}
    task_id: eccv_caption_i2t_map_at_r
    revision: old
    # of the dataset
  framework: {{name: ours}}  # kept
  value: 0.1 # lower than hoped
  verifyToken: signed
  source:
    url: https://example.org/old
    name: Old logs
  ours: [1, 2]
  # the end of it
- {{dataset: {{id: {BENCHMARK}, task_id: eccv_caption_i2t_r_precision}}, value: 0.4}}
# That is all.
"""
AFTER = f"""# Results of ours; ask before you change them
- dataset:
    id: other/data  # theirs
    task_id: x
  value: 1  # signed
  verifyToken: signed
  model_revision: abc

-   # in spring
  dataset:
    id: {BENCHMARK}
    task_id: eccv_caption_i2t_map_at_r
    revision: {REVISION}
    # of the dataset
  framework: {{name: ours}}  # kept
  value: 0.3125 # lower than hoped
  ours: [1, 2]
  notes: cxc_eccv 0.1.0, data 1.0.0
  # the end of it
- {{dataset: {{id: {BENCHMARK}, task_id: eccv_caption_i2t_r_precision}}, value: 0.4}}
# That is all.
- dataset:
    id: {BENCHMARK}
    task_id: cxc_t2t_recall_at_1
    revision: {REVISION}
  value: 0.25
  notes: cxc_eccv 0.1.0, data 1.0.0
"""


def test_comments_and_keys_of_others_stay():
    assert merge(THERE) == AFTER


IN_FLOW = f"[{{dataset: {{id: {BENCHMARK}, task_id: cxc_t2t_recall_at_1}}, value: 0.5, ours: 3, date: 2025-01-01}}]"


def test_list_in_flow_style_keeps_keys():
    (row,) = yaml.safe_load(merge(IN_FLOW, "cxc_t2t_recall_at_1"))
    assert [row["value"], row["ours"], "date" in row] == [0.25, 3, False]


TWO_RESULTS = [{"dataset": {"id": BENCHMARK, "task_id": "cxc_t2t_recall_at_1"}, "value": value} for value in (0.5, 0.6)]
UNREADABLE = "is not a list of results with dataset.id, dataset.task_id and value. Correct or delete it"

LEFT_ALONE = {
    "object": ("a: 1", UNREADABLE),
    "no-dataset": ("- value: 1", UNREADABLE),
    "no-yaml": ("- [", UNREADABLE),
    "two-results-of-a-task": (yaml.safe_dump(TWO_RESULTS), "has 2 results of cxc_t2t_recall_at_1. Leave one"),
    "comment-in-flow-style": (f"{IN_FLOW}  # ours", "cannot be changed without losing comments"),
}


@pytest.mark.parametrize("fault", LEFT_ALONE)
def test_file_that_cannot_be_merged_is_left_alone(fault):
    before, message = LEFT_ALONE[fault]
    with pytest.raises(HubConflict) as caught:
        merge(before, "cxc_t2t_recall_at_1")
    assert message in str(caught.value)


DAY = "expected the day of the run, such as 2026-05-31"
UNKNOWN = "unknown task of the leaderboard"

WRONG_OPTIONS = {
    "two-lines": ({"notes": "a\nb"}, "expected one line of at most 300 characters"),
    "long-notes": ({"notes": "a" * 301}, "expected one line of at most 300 characters"),
    "no-web-address": ({"source": "file:///etc/passwd"}, "not a web address"),
    "date-of-another-form": ({"date": "31.12.2025"}, f"found '31.12.2025', {DAY}"),
    "day-without-dashes": ({"date": "20251231"}, f"found '20251231', {DAY}"),
    "day-to-come": ({"date": "9999-01-01"}, f"found '9999-01-01', {DAY}"),
    "no-task": ({"tasks": ()}, "--tasks is empty"),
    "unknown-task": ({"tasks": ("eccv_captions",)}, f"{UNKNOWN} 'eccv_captions'; did you mean 'eccv_caption'?"),
    "unknown-metric": ({"tasks": ("cxc/t2t/recal_at_1",)}, "did you mean 'cxc/t2t/recall_at_1'?"),
    "metric-off-the-board": ({"tasks": ("cxc/i2t/median_rank",)}, f"{UNKNOWN} 'cxc/i2t/median_rank'"),
    "task-off-the-board": ({"tasks": ("flickr30k",)}, f"{UNKNOWN} 'flickr30k'"),
}


@pytest.mark.parametrize("fault", WRONG_OPTIONS)
def test_wrong_option_is_refused(fault):
    options, message = WRONG_OPTIONS[fault]
    with pytest.raises(CxcEccvError) as caught:
        SubmitOptions(**options)
    assert message in str(caught.value)
