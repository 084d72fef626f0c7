"""The provenance of a report as JSON, and back."""

import json

import pytest

from cxc_eccv.types.json_records import from_json, make_shape, to_json
from cxc_eccv.types.provenance import (
    DataFacts,
    ItemFacts,
    JudgeFacts,
    LabelFacts,
    LabelFileFacts,
    ModifiedFile,
    Provenance,
    RunFacts,
)
from cxc_eccv.types.strict_json import JsonFault, check_shape

WHOLE = Provenance(
    data=DataFacts(edition="mine", files={"sts_test": "a"}, modified={"sts_test": ModifiedFile("b", "a")}),
    split="test",
    intervals="none",
    run=RunFacts(kind="scores", images=ItemFacts(3, outside_the_tasks=0)),
    labels=LabelFacts(sources=("coco", "mine"), files={"mine": LabelFileFacts(version="1.0.0", people=3)}),
    unjudged=JudgeFacts(model="judge", cautions=(), pairs={"entailment/i2t": 3}),
    others={"training": {"seed": 1}},
)


def test_provenance_reads_back_equal():
    content = json.loads(json.dumps(to_json(WHOLE)))
    check_shape(content, make_shape(Provenance))
    assert from_json(Provenance, content) == WHOLE


def test_absent_entries_differ_from_null_ones():
    content = to_json(WHOLE)
    assert content["confidence"] is content["similarity"] is content["run"]["file"] is None
    assert {"model", "seed", "restriction", "answers"}.isdisjoint(content)
    assert to_json(Provenance()) == {}


@pytest.mark.parametrize(
    ("entry", "value", "place"),
    [("run", {"images": {"count": "3"}}, "run, images, count"), ("unjudged", {"model": "judge"}, "unjudged")],
)
def test_fault_names_its_place(entry, value, place):
    with pytest.raises(JsonFault, match=place):
        check_shape({entry: value}, make_shape(Provenance))
