"""Every option of an evaluation that can change a value is in the report's provenance or in its results."""

import json
from dataclasses import fields, make_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from report_samples import near_run

from cxc_eccv.comparison import compare
from cxc_eccv.errors import CxcEccvError
from cxc_eccv.evaluation import Request, evaluate_request
from cxc_eccv.evaluation.answers import Answers
from cxc_eccv.evaluation.calls import measure_request
from cxc_eccv.evaluation.request import REQUEST_ENTRIES
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings
from cxc_eccv.types.provenance import Provenance, find_options

KEY = "coco_5k/t2i/recall_at_1"
BOUNDED = {"bounds": True, "tasks": "coco_5k/t2i", "metrics": "recall_at_1"}


def score(images, captions):
    """Probabilities of pairs."""
    return (images + captions) % 5 / 4


CHANGES = {
    "tasks": ({}, "cxc/t2i"),
    "metrics": ({}, "mrr"),
    "split": ({}, "validation"),
    "sources": ({}, "coco"),
    "limit": ({}, 20),
    "allow_missing": ({}, True),
    "similarity": ({}, "dot"),
    "device": ({}, "cpu"),
    "block_size": ({}, 7),
    "intervals": ({}, "binomial"),
    "confidence": ({}, 0.9),
    "seed": ({}, 5),
    "unjudged": ({"tasks": "entailment", "metrics": "entail_at_k"}, "leave_out"),
    "judge": ({"tasks": "entailment", "metrics": "entail_at_k"}, score),
    "bounds": ({}, True),
    "bounds_depth": (BOUNDED, 7),
    "answers": ({**BOUNDED, "judge": score}, None),
    "per_query": ({}, True),
    "name": ({}, "a model"),
    "training_data": ({}, ("web",)),
}
"""Field of a request to other options, and a value that differs from the default."""


@pytest.fixture(scope="module")
def runs(sample_library):
    """Runs by split; the one that lacks items is of ``allow_missing``."""
    whole = near_run(sample_library)
    split = sample_library.split("validation")
    random = np.random.default_rng(0)
    sides = (split.image_ids, split.caption_ids)
    few = EmbeddingsRun(Embeddings(whole.images.ids[::2], whole.images.vectors[::2]), whole.captions)
    return {
        "test": whole,
        "validation": EmbeddingsRun(*(Embeddings(ids, random.standard_normal((ids.size, 8))) for ids in sides)),
        "few": few,
    }


def answer_all(run, request, library):
    """Answers to all open pairs of the number that a request asks for."""
    variant, measured = measure_request(run, request, library)[0]
    units = measured.find_unjudged(variant)
    shape = units.images.shape
    return Answers(
        path=Path("answers"),
        split="test",
        key=KEY,
        frame=units.fingerprint,
        images=units.images,
        captions=units.captions,
        labels=np.arange(shape[0]) % 2.0,
        drawn=np.ones(shape),
    )


def report_of(runs, library, request):
    """The content of report.json."""
    run = runs["few" if getattr(request, "allow_missing", False) else request.split]
    return json.loads(evaluate_request(run, request, library, progress=False).to_json())


def find_entry(content, place):
    for name in place.split("/"):
        content = content.get(name) if content else None
    return content


def records(name, place, reports):
    """Whether two reports that differ in an option differ at its place; without one, whether all their values agree."""
    if place is None:
        return reports[0]["results"] == reports[1]["results"]
    entries = [find_entry(report, place) for report in reports]
    return entries[0] != entries[1]


@pytest.mark.parametrize("name", CHANGES)
def test_option_is_recorded_where_it_is_said(name, runs, sample_library):
    if name == "device":
        pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    others, value = CHANGES[name]
    base = Request(**{"tasks": "coco_5k", **others})
    if name == "answers":
        value = answer_all(runs["test"], base, sample_library)
    changed = replace(base, **{name: value})
    reports = [report_of(runs, sample_library, request) for request in (base, changed)]
    assert records(name, REQUEST_ENTRIES[name], reports)
    if REQUEST_ENTRIES[name] is not None:
        assert reports[0] != reports[1]


def test_every_recorded_option_is_tried():
    assert CHANGES.keys() == REQUEST_ENTRIES.keys()
    assert REQUEST_ENTRIES.keys() <= {field.name for field in fields(Request)}


Emphasised = make_dataclass(
    "Emphasised",
    [("emphasis", int, 1)],
    bases=(Request,),
    frozen=True,
    slots=True,
    kw_only=True,
    eq=False,
)
"""A copy of a request with one more field, which no line of the package names."""


def test_new_field_reaches_the_report(runs, sample_library):
    requests = [Emphasised(tasks="coco_5k", emphasis=emphasis) for emphasis in (1, 3)]
    plain, report = (evaluate_request(runs["test"], each, sample_library, progress=False) for each in requests)
    assert "options" not in json.loads(plain.to_json())["provenance"]
    assert json.loads(report.to_json())["provenance"]["options"] == {"emphasis": 3}
    assert Report.from_json(report.to_json()).provenance.options == {"emphasis": 3}
    assert (plain.departure, report.departure) == ("", "other options, emphasis=3")


def test_reports_of_other_options_are_not_compared(runs, sample_library):
    options = {"tasks": "coco_5k", "per_query": True}
    requests = [Emphasised(**options, emphasis=emphasis, name=f"with {emphasis}") for emphasis in (1, 3)]
    reports = [evaluate_request(runs["test"], each, sample_library, progress=False) for each in requests]
    with pytest.raises(CxcEccvError, match="the options"):
        compare(*reports)


@pytest.mark.parametrize("place", ["results", "scores", "provenance/emphasis"])
def test_field_that_only_claims_a_place_is_found(place, runs, sample_library, monkeypatch):
    """The contract fails for a field of a copy that is listed as recorded, and that no report has."""
    monkeypatch.setattr("cxc_eccv.evaluation.make_report.REQUEST_ENTRIES", {**REQUEST_ENTRIES, "emphasis": place})
    requests = [Emphasised(tasks="coco_5k", emphasis=emphasis) for emphasis in (1, 3)]
    assert not records("emphasis", place, [report_of(runs, sample_library, each) for each in requests])


def test_options_are_written_as_json():
    request = Emphasised(emphasis=3, limit=5, name="mine")
    assert find_options(request, REQUEST_ENTRIES) == {"emphasis": 3}
    assert find_options(replace(request, emphasis=Path("a")), REQUEST_ENTRIES) == {"emphasis": "a"}
    assert Provenance().options == {}
