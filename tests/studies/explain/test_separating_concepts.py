"""What separates two models: made-up runs in which one model's vectors are spoilt for one concept."""

import json
import re
from dataclasses import replace
from html import unescape
from itertools import product

import numpy as np
import pytest

from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.statistics import holm, randomization_test
from cxc_eccv.studies.explain.concepts import find_mentions, load_concepts
from cxc_eccv.studies.explain.explanation import explain_run
from cxc_eccv.studies.explain.separating_concepts import EXAMPLES, LEAST_IMAGES, separate_models
from cxc_eccv.types import Embeddings

SPOILT = "square.n.01"


def sign_flips(differences):
    """The share of all ways to flip signs whose sum is as far from 0."""
    sums = [abs(sum(np.array(signs) * differences)) for signs in product((-1, 1), repeat=len(differences))]
    return np.mean([total >= abs(sum(differences)) for total in sums])


@pytest.mark.parametrize("seed", range(6))
def test_randomization_equals_all_sign_flips(seed):
    differences = np.random.default_rng(seed).integers(-3, 4, 3 + seed)
    assert randomization_test(differences) == pytest.approx(sign_flips(differences), abs=1e-12)


def test_no_difference_has_p_value_one():
    assert randomization_test(np.zeros(5, dtype=int)) == 1


@pytest.fixture(scope="module")
def scene(sample_library, wordnet_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NLTK_DATA", wordnet_folder)
        split = sample_library.split()
        concepts = load_concepts(split)
        vocabulary = sorted({name for shown in concepts.images.values() for name in shown})
        yield split, concepts, find_mentions(split.captions["text"].to_pylist(), vocabulary)


@pytest.fixture(scope="module")
def runs(scene):
    """A model that is right but for some random queries, and the same where every square is lost but nothing else."""
    split, concepts, mentions = scene
    images = split.image_ids.tolist()
    owners = split.caption_image_ids.tolist()
    random = np.random.default_rng(1)
    tops = [owner if random.random() > 0.1 else int(random.choice(images)) for owner in owners]
    spoilt = list(tops)
    for row, (owner, named) in enumerate(zip(owners, mentions, strict=True)):
        asked = named & concepts.images[owner].keys()
        for other in images:
            shown = concepts.images[other].keys()
            if SPOILT in asked and asked & shown == asked - {SPOILT}:
                spoilt[row] = other
    assert spoilt != tops
    # no ties
    vectors = np.eye(len(images))
    noise = random.normal(0, 0.01, (len(owners), len(images)))
    side = Embeddings(split.image_ids, vectors)

    def make(name, chosen):
        rows = vectors[[images.index(image) for image in chosen]] + noise
        return EmbeddingsRun(side, Embeddings(split.caption_ids, rows), model=name)

    return make("A", spoilt), make("B", tops)


@pytest.fixture(scope="module")
def explanations(runs, scene):
    split, concepts, _ = scene
    return [explain_run(run, split, concepts) for run in runs]


def explanation_of_t2i(model):
    return replace(model, directions={"t2i": model.directions["t2i"]})


def count_by_loops(explanations, scene, direction="t2i"):
    """Concept to the misses of both models, by image, over the queries for it."""
    split, concepts, mentions = scene
    tables = [model.directions[direction].table.to_pylist() for model in explanations]
    failed = [{row["query_id"]: row["retrieved_id"] for row in rows} for rows in tables]
    counts = {}
    for query, owner, named in zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), mentions, strict=True):
        for concept in named & concepts.images[owner].keys():
            missed = [int(query in tops and concept not in concepts.images[tops[query]]) for tops in failed]
            counts.setdefault(concept, []).append((owner, query, *missed))
    return counts


def test_only_the_spoilt_concept_is_named(explanations):
    separation = separate_models(explanations)
    assert {row.concept for row in separation.concepts.itertuples() if row.direction == "t2i"} == {SPOILT}


def test_separation_equals_plain_loops(explanations, scene):
    only = [explanation_of_t2i(model) for model in explanations]
    separation = separate_models(only)
    p_values = {}
    for concept, rows in count_by_loops(explanations, scene).items():
        by_image = {}
        for owner, _, first, other in rows:
            by_image[owner] = by_image.get(owner, 0) + first - other
        differing = np.array([value for value in by_image.values() if value])
        if differing.size >= LEAST_IMAGES:
            p_values[concept] = sign_flips(differing) if differing.size < 16 else randomization_test(differing)
    assert separation.tested == len(p_values)
    corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    (row,) = separation.concepts.itertuples()
    rows = count_by_loops(explanations, scene)[SPOILT]
    assert (row.queries, row.images) == (len(rows), len({owner for owner, *_ in rows}))
    assert row.first_misses == pytest.approx(np.mean([first for *_, first, _ in rows]))
    assert row.other_misses == pytest.approx(np.mean([other for *_, other in rows]))
    assert row.p_holm == pytest.approx(corrected[SPOILT])
    missed = {query for _, query, first, other in rows if first and not other}
    assert len(row.examples) == min(EXAMPLES, len(missed))
    assert {example["query_id"] for example in row.examples} <= missed


def test_sentence_names_the_worse_model(explanations):
    for models in (explanations, explanations[::-1]):
        (row,) = separate_models([explanation_of_t2i(model) for model in models]).concepts.itertuples()
        pattern = (
            r"A misses 'square' in \d+% of its queries, B in \d+% \(p [<=] 0\.\d+ after Holm's correction, \d+ quer"
        )
        assert re.match(pattern, row.sentence), row.sentence


def test_a_model_is_not_separated_from_itself(explanations):
    separation = separate_models([explanations[1], explanations[1]])
    assert (separation.tested, len(separation.concepts)) == (0, 0)


@pytest.mark.thorough
@pytest.mark.usefixtures("wordnet")
def test_command_shows_what_separates_two_models(runs, command, tmp_path):
    paths = [tmp_path / f"{run.model}.npz" for run in runs]
    for path, run in zip(paths, runs, strict=True):
        save_embeddings(path, run)
    status, shown, _ = command("explain", *paths, "--direction", "t2i", "--output", tmp_path / "out")
    assert status == 0
    assert max(map(len, shown.splitlines())) <= 80
    content = json.loads((tmp_path / "out" / "explain.json").read_text(encoding="utf-8"))["separating"]
    (row,) = content["concepts"]
    assert (row["concept"], row["direction"], len(row["examples"])) == (SPOILT, "t2i", 10)
    for name in ("explain.html", "explain.md"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert row["sentence"] in unescape(text), name
    words = " ".join(shown.split())
    assert row["sentence"] in words
    assert "10 queries with 'square' that only one of them misses" in words
