"""All that labels are worth, on a project of the sample, against slow loops; and its tables, JSON and page."""

import json
import shutil
from dataclasses import fields, make_dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from annotated_projects import noisy_run, pairs_of
from label_files import write_label_file

from cxc_eccv.errors import DataError, InvalidOption, MissingIds, UnknownName
from cxc_eccv.judgments.evidence.source import item_ids
from cxc_eccv.judgments.merging import merged_qrels
from cxc_eccv.metrics.graded_r_precision import graded_r_precision
from cxc_eccv.metrics.graded_recall_at_k import graded_recall_at_k
from cxc_eccv.runs import EmbeddingsRun, load_run, save_embeddings
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.annotation.label_quality.appraisal import RECORDED, AppraisalRequest
from cxc_eccv.studies.annotation.label_quality.appraisal import appraise as measure
from cxc_eccv.studies.annotation.label_quality.bias import bias_by_size, join_proposals, measure_bias, measure_gains
from cxc_eccv.studies.annotation.label_quality.preferences import rate_preferences
from cxc_eccv.studies.annotation.label_quality.sets import find_verified
from cxc_eccv.studies.annotation.project import Project
from cxc_eccv.studies.annotation.proposing import ProposalOptions
from cxc_eccv.types import Embeddings, TopK

pytestmark = pytest.mark.thorough

MODELS = ("early", "late", "other")
QUERIES = (20, 90)


@pytest.fixture(scope="module")
def runs(sample_library):
    return {name: noisy_run(sample_library, seed, width=8) for seed, name in enumerate(MODELS)}


def appraise(library, split="test", **fields):
    return measure(library, AppraisalRequest(split=split, **fields))


def answer(project, folder, **facts):
    """Labels as annotate merge writes them, of nine in ten candidates, for whom a draw answers."""
    random = np.random.default_rng(2)
    kept = [pair for pair in sorted(pairs_of(project.candidates)) if random.random() < 0.9]
    gains = random.choice([0.0, 0.5, 1.0], len(kept), p=[0.6, 0.2, 0.2])
    write_label_file(folder / "labels.parquet", project.library, kept, gains, **facts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, runs):
    folder = tmp_path_factory.mktemp("annotated") / "mine"
    project = Project.create(folder, Library("sample"), name="mine")
    answer(project.propose(runs, ProposalOptions(queries=QUERIES, sources=("coco",))), folder)
    return folder


@pytest.fixture(scope="module")
def library(folder):
    return Library("sample", labels=[folder])


@pytest.fixture(scope="module")
def project(folder, library):
    return Project.open(folder, library)


@pytest.fixture(scope="module")
def found(library, runs, project):
    choices = rate_preferences([[0, 30], [10, 0]], ["A", "B"])
    return appraise(library, runs=runs, project=project, preferences=choices)


def listed(library, direction, sources):
    judged = merged_qrels(library.split("test"), direction, sources=sources)
    queries = judged.query_ids[judged.rows]
    items = judged.gallery_ids[judged.indices]
    return set(zip(queries.tolist(), items.tolist(), strict=True))


def known_pairs(library, project, direction):
    """What a project knows, (query, item) to whether it matches and whether somebody said so; and what was searched."""
    names = ("image_id", "caption_id") if direction == "i2t" else ("caption_id", "image_id")
    labels = library.split("test").labels("mine").table.to_pylist()
    known = {}
    searched = set()
    for own in project.rounds:
        for row in own.known.to_pylist():
            known[tuple(row[name] for name in names)] = (True, False)
        for row in own.known.to_pylist() + own.candidates.to_pylist():
            searched |= {row[names[0]] for one in row["proposals"] if one["direction"] == direction}
    known |= {tuple(row[name] for name in names): (row["positive"], True) for row in labels}
    return {pair: said for pair, said in known.items() if pair[0] in searched}, searched


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_precision_and_recall_beside_a_project(found, library, project, direction):
    """By the definition, over what was asked, what was known, and the queries that models looked for items for."""
    known, searched = known_pairs(library, project, direction)
    assert len(searched) == QUERIES[direction == "t2i"]
    for sources in (["coco"], ["cxc"], ["eccv"], ["coco", "cxc", "eccv"]):
        labels = listed(library, direction, sources)
        precisions = []
        recalls = []
        for query in {pair[0] for pair in known}:
            own = {pair: said for pair, said in known.items() if pair[0] == query}
            labelled = {pair for pair in own if pair in labels}
            asked = {pair for pair in labelled if own[pair][1]}
            true = {pair for pair in own if own[pair][0]}
            if asked:
                precisions.append(len(asked & true) / len(asked))
            if labelled and true:
                recalls.append(len(labelled & true) / len(true))
        row = next(one for one in found.worth if (one.labels, one.direction) == (",".join(sources), direction))
        assert (row.n_precision, row.n_recall) == (len(precisions), len(recalls))
        assert (row.precision and row.precision.value) == (pytest.approx(np.mean(precisions)) if precisions else None)
        assert row.recall.value == pytest.approx(np.mean(recalls))
        assert row.n_known == sum(not said[1] for said in known.values())


def test_what_is_verified_without_labels_of_ones_own(sample_library):
    found = appraise(sample_library)
    assert {row.verified for row in found.worth} == {"cxc", "eccv"}
    for row in found.worth:
        assert (row.precision is None) == (not row.asked) == (row.verified == "eccv")
    assert "lists only positives" in str(found)
    assert {*found.not_computed} == {"bias", "diversity", "preferences"}


def test_source_with_missing_files_is_left_out(sample_library, tmp_path):
    own = shutil.copytree(Path(str(resources.files("cxc_eccv"))) / "sample", tmp_path / "sample")
    for path in own.rglob("eccv_*_to_*.json*"):
        path.unlink()
    found = appraise(Library(own, offline=True))
    assert not any("eccv" in row.labels for row in found.counts)
    assert {row.verified for row in found.worth} == {"cxc"}
    assert "eccv" in found.not_computed["eccv"]


def test_sets_verdicts_and_queries_can_be_named(sample_library):
    found = appraise(sample_library, sets=[["cxc", "coco"], ["plausible_1"]], verified=["entailment"], queries="all")
    assert {row.labels for row in found.counts} == {"cxc,coco", "plausible_1"}
    assert {row.verified for row in found.worth} == {"entailment"}
    row = found.counts[0]
    assert row.counts.n_queries + row.counts.n_without == sample_library.split("test").caption_ids.size
    found = appraise(sample_library, "validation")
    assert ({row.verified for row in found.worth}, found.queries) == ({"cxc"}, None)
    assert not any("eccv" in row.labels for row in found.counts)
    found = appraise(sample_library, "validation", sets=[["eccv"]])
    assert not found.counts
    assert "no set of labels has a positive" in found.not_computed["counts"]


CHANGES = {
    "intervals": "none",
    "confidence": 0.9,
    "seed": 5,
    "split": "validation",
    "sets": (("coco",),),
    "verified": ("cxc",),
    "queries": "all",
    "similarity": "dot",
}
"""Field of a request that no other test sets, to a value that differs from its default."""


@pytest.mark.parametrize("name", CHANGES)
def test_option_is_in_the_record(name, sample_library):
    requests = [AppraisalRequest(), AppraisalRequest(**{name: CHANGES[name]})]
    plain, changed = (measure(sample_library, request).provenance for request in requests)
    assert plain != changed
    assert name in RECORDED or name in changed.options


def test_every_option_is_in_the_record(found):
    assert {field.name for field in fields(AppraisalRequest)} == {*CHANGES, "runs", "project", "preferences"}
    assert found.provenance.others["models"].keys() == set(MODELS)
    assert found.provenance.others["labels"].keys() == {"mine"}
    assert len(found.preferences) == 2


def test_new_option_reaches_the_record(sample_library):
    field = ("emphasis", int, 1)
    kind = make_dataclass("Emphasised", [field], bases=(AppraisalRequest,), frozen=True, kw_only=True, eq=False)
    record = json.loads(measure(sample_library, kind(emphasis=3)).to_json())
    assert record["provenance"]["options"] == {"emphasis": 3}
    assert "options" not in json.loads(measure(sample_library, kind()).to_json())["provenance"]


def test_what_cannot_be_appraised_is_refused(sample_library, runs):
    own = runs["early"]
    short = EmbeddingsRun(Embeddings(own.images.ids[1:], own.images.vectors[1:]), own.captions)
    for options, error, message in (
        ({"sets": [["nobody"]]}, UnknownName, "nobody"),
        ({"verified": ["nobody"]}, UnknownName, "nobody"),
        ({"queries": "nobody"}, UnknownName, "nobody"),
        ({"split": "train"}, UnknownName, "train"),
        ({"verified": ["plausible_0"]}, UnknownName, "plausible_0"),
        ({"split": "validation", "queries": "eccv"}, InvalidOption, "eccv has no labels of the validation split; cho"),
        ({"sets": [["coco", "cxc", "coco"]]}, InvalidOption, "has coco twice"),
        ({"runs": {"short": short, "late": runs["late"]}}, MissingIds, "lack"),
    ):
        with pytest.raises(error, match=message):
            appraise(sample_library, **options)


def test_intervals_are_of_images_drawn_anew(found, sample_library):
    """Against a bootstrap written out: captions of an image are drawn together."""
    row = next(one for one in found.counts if (one.labels, one.direction) == ("eccv", "t2i"))
    table = sample_library.split("test").eccv("eccv", "t2i")
    content = sample_library.split("test")
    image_of = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    clusters = {}
    for query in set(table["query_id"].to_pylist()):
        clusters.setdefault(image_of[query], []).append(table["query_id"].to_pylist().count(query))
    groups = list(clusters.values())
    random = np.random.default_rng(9)
    means = []
    for _ in range(4_000):
        drawn = [groups[place] for place in random.integers(0, len(groups), len(groups))]
        means.append(np.mean([size for group in drawn for size in group]))
    low, high = np.quantile(means, [0.025, 0.975])
    assert (row.mean.low, row.mean.high) == (pytest.approx(low, abs=0.15), pytest.approx(high, abs=0.15))


def best_items(run, query_ids, direction, gallery_ids, depth):
    """By sorting all scores."""
    sides = (run.images, run.captions)
    ours, theirs = sides if direction == "i2t" else sides[::-1]
    unit = [own.vectors / np.linalg.norm(own.vectors, axis=1, keepdims=True) for own in (ours, theirs)]
    scores = unit[0] @ unit[1].T
    rows = [ours.ids.tolist().index(query) for query in query_ids.tolist()]
    assert theirs.ids.tolist() == gallery_ids.tolist()
    return theirs.ids[np.argsort(-scores[rows], axis=1)[:, :depth]]


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_scores_on_all_labels_equal_graded_metrics(found, library, project, runs, direction):
    proposals = pa.concat_tables([table for own in project.rounds for table in (own.candidates, own.known)])
    gallery = item_ids(library.split("test"), direction)[1]
    labels = join_proposals(
        find_verified(library.split("test"), direction, "mine", proposals), proposals, gallery, direction
    )
    own = {row.metric: row for row in found.bias if row.direction == direction}
    for name, run in runs.items():
        top = TopK(labels.judgments.query_ids, best_items(run, labels.judgments.query_ids, direction, gallery, 40))
        for metric in ("recall_at_1", "r_precision"):
            for row in own[metric].sets:
                number = sum(1 << MODELS.index(annotator) for annotator in row.annotators)
                set_gains = np.where(labels.proposers & number, labels.judgments.gains, 0.0)
                of_set = replace(labels.judgments, gains=set_gains)
                value = expected_score(metric, top, of_set)
                assert row.scores[name].value == pytest.approx(value)


def expected_score(metric, top, judgments):
    """The mean over all queries, of which those without a label of the set count 0."""
    labelled = judgments.without(np.array([]), np.array([]))
    some = TopK(labelled.query_ids, top.ids[np.isin(top.query_ids, labelled.query_ids)])
    values = graded_recall_at_k(some, labelled, 1) if metric == "recall_at_1" else graded_r_precision(some, labelled)
    return values.sum() / len(top.ids)


def test_bias_of_every_set_of_annotators(found):
    for own in found.bias:
        assert [len(row.annotators) for row in own.sets] == [1, 1, 1, 2, 2, 2, 3]
        scores = {frozenset(row.annotators): {name: row.scores[name].value for name in MODELS} for row in own.sets}
        for row in own.sets:
            bias = measure_bias(scores[frozenset(row.annotators)], scores[frozenset(MODELS)], row.annotators)
            assert {name: own and own.value for name, own in row.bias.items()} == pytest.approx(bias)
            assert row.bias["all"].low <= row.bias["all"].value <= row.bias["all"].high
        sizes = bias_by_size(MODELS, scores.get)
        gains = measure_gains(MODELS, scores.get)
        assert {size: bias["own"].value for size, bias in own.by_size.items()} == pytest.approx(
            {size: bias["own"] for size, bias in sizes.items()}
        )
        assert {name: gain["others"].value for name, gain in own.gains.items()} == pytest.approx(
            {name: gain["others"] for name, gain in gains.items()}
        )


def test_models_outside_the_proposal_get_no_bias(library, runs, project):
    """The first are scored and never annotators; without all annotators, by their similarity, there is no bias."""
    texts = EmbeddingsRun(None, runs["early"].captions)
    lame = {f"texts-{number}": texts for number in range(6)}
    every = {**runs, "newcomer": noisy_run(library, 9, width=8), **lame}
    found = appraise(library, sets=[["coco"]], runs=every, project=project)
    assert len(found.bias) == 4
    for own in found.bias:
        assert ({*own.gains}, {*own.sets[-1].scores}) == ({*MODELS}, {*MODELS, "newcomer"})
        assert own.sets[-1].bias["others"].value == 0
    told = [name for name in found.not_computed if name.startswith("texts") and name.endswith("t2i")]
    assert told == [f"{name}/t2i" for name in lame]  # in their order, in every process
    assert found.not_computed["texts-0/t2i"] == texts.why_not("t2i")
    assert not any("texts-0" in (row.one, row.other) for row in found.diversity)
    options = {"sets": [["coco"]], "project": project}
    found = appraise(library, **options, runs={name: runs[name] for name in MODELS[:2]})
    assert (found.bias, len(found.diversity)) == ((), 4)
    assert "missing: other" in found.not_computed["bias/t2i"]
    assert appraise(library, **options, runs=runs, similarity="cosine").bias
    found = appraise(library, **options, runs=runs, similarity="dot")
    assert not found.bias
    assert "by the similarity cosine: give that similarity, or none" in found.not_computed["bias/i2t"]


def test_model_pairs_compare_first_items_and_orders(found, library, runs):
    for direction in ("t2i", "i2t"):
        queries, gallery = item_ids(library.split("test"), direction)
        tops = {name: best_items(run, queries, direction, gallery, 25).tolist() for name, run in runs.items()}
        rows = {(row.one, row.other): row for row in found.diversity if row.direction == direction}
        assert len(rows) == 6
        both = zip(tops["early"], tops["other"], strict=True)
        places = [right.index(left[0]) + 1 for left, right in both if left[0] in right]
        row = rows["early", "other"]
        assert (row.place.value, row.n_placed) == (pytest.approx(np.mean(places)), len(places))
        assert row.n_queries == queries.size > row.n_placed
        assert row.correlation == rows["other", "early"].correlation


def test_changed_model_of_same_name_is_no_annotator(library, runs, tmp_path):
    """The files that proposed are known by their hashes."""
    files = {name: tmp_path / f"{name}.npz" for name in MODELS}
    for name, file in files.items():
        save_embeddings(file, runs[name])
    loaded = {name: load_run(file) for name, file in files.items()}
    folder = tmp_path / "mine"
    answer(
        Project.create(folder, Library("sample"), name="mine").propose(loaded, ProposalOptions(queries=QUERIES)), folder
    )
    own = Library("sample", labels=[folder])
    assert appraise(own, sets=[["coco"]], runs=loaded, project=Project.open(folder, own)).bias
    save_embeddings(files["late"], noisy_run(own, 5, width=8))
    changed = {**loaded, "late": load_run(files["late"])}
    found = appraise(own, sets=[["coco"]], runs=changed, project=Project.open(folder, own))
    assert not found.bias
    assert "differs from the one that proposed" in found.not_computed["bias/t2i"]


def test_project_without_labels_or_split_is_refused(runs, tmp_path):
    project = Project.create(tmp_path, Library("sample"), name="mine").propose(runs, ProposalOptions(queries=QUERIES))
    answer(project, tmp_path, name="others")
    library = Library("sample", labels=[tmp_path])
    with pytest.raises(DataError, match="make them with annotate merge"):
        appraise(library, runs=runs, project=project)
    with pytest.raises(DataError, match="about the test split"):
        appraise(library, "validation", project=project)


def with_command(appraisal, command):
    return replace(appraisal, provenance=replace(appraisal.provenance, command=command))


def test_json_and_tables_hold_the_numbers(found):
    content = json.loads(with_command(found, "cxc-eccv label-quality").to_json())
    provenance = content["provenance"]
    assert content["schema"] == 1
    assert content["worth"][0]["recall"]["value"] == found.worth[0].recall.value
    assert [len(own["sets"]) for own in content["bias"]] == [7] * 4
    assert (provenance["labels"]["mine"]["people"], provenance["command"]) == (3, "cxc-eccv label-quality")
    assert {*provenance["models"]} == {*MODELS}
    assert found.provenance.command is None
    assert ({row.verified for row in found.worth}, any("mine" in row.labels for row in found.worth)) == (
        {"mine"},
        False,
    )
    assert {row.labels for row in found.counts} >= {"coco", "mine", "coco,cxc", "plausible_0"}
    anchors = [section.anchor for section in found.sections()]
    assert anchors == ["counts", "worth", "bias", "diversity", "preferences"]
    text = found.to_markdown()
    mean = next(one.mean for one in found.counts if (one.labels, one.direction) == ("eccv", "t2i"))
    others = found.bias[0].sets[0].bias["others"]
    for part in (f"{mean.value:.2f} [{mean.low:.2f}, {mean.high:.2f}]", f"{100 * others.value:.2f} [", "| A | 75.00"):
        assert part in text
    assert f"{100 * found.worth[0].recall.value:.1f}" in text


def test_the_page_escapes_what_comes_from_data(library, runs, project):
    bad = "<script>alert(1)</script>"
    found = appraise(library, sets=[["coco"]], runs={**runs, bad: noisy_run(library, 4, width=8)}, project=project)
    page = with_command(found, f"cxc-eccv label-quality {bad}").to_html()
    assert bad not in page
    assert "&lt;script&gt;" in page
    for anchor in ("counts", "worth", "bias", "diversity", "origin"):
        assert f'<section id="{anchor}"' in page
    assert "preferences" not in page.replace("Not computed: preferences", "")
    assert found.footnotes()[0] in page
