"""What studies say to be of cosine depends on directions alone: scaled by powers of two, vectors give the same."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install torch")

from label_loop.scorers import place_images
from scaled_runs import scale, scale_each, sides, with_altered_queries

from cxc_eccv.studies.annotation.proposing.alike import choose_caption_pairs, choose_image_pairs
from cxc_eccv.studies.entailment.mining import with_image_vectors
from cxc_eccv.studies.explain.caption_corpus import collect_captions, evaluate_query_corpus
from cxc_eccv.studies.explain.failed_queries import find_failures
from cxc_eccv.studies.explain.reranking import rerank

pytestmark = pytest.mark.thorough


def query_corpus(run, library, **options):
    captions = collect_captions(library, "coco")
    return evaluate_query_corpus(captions, run.captions.vectors, library, collection="coco", **options).scores


def altered(run, library, direction):
    return rerank(run, run, library.split(), directions=[direction]).scores


def mined(run, library):
    content = library.split("test")
    return with_image_vectors(replace(run, images=None), content).images.vectors


def placed(run, library):
    found = place_images(run, library.split("test"))
    return {side: getattr(found, side).vectors for side in ("images", "captions")}


def failed(run, library):
    found = find_failures(run, library.split("test"), "t2t")
    return found.rows.to_numpy(object), found.rival_ids


def proposed(run, library, choose):
    table = choose({"model": run}, library.split("test"))
    return {name: np.asarray(table[name]) for name in table.column_names}


OF_DIRECTIONS = {
    "failures": failed,
    "altered queries": lambda run, library: altered(run, library, "t2i"),
    "query-corpus, normalised": lambda run, library: query_corpus(run, library, normalize=True),
    "entailment mining": mined,
    "simulated annotators": placed,
    "caption pairs to annotate": lambda run, library: proposed(run, library, choose_caption_pairs),
    "image pairs to annotate": lambda run, library: proposed(run, library, choose_image_pairs),
}
"""Where the length of no single vector counts."""

OF_MEANS = {
    "query-corpus": query_corpus,
    "altered queries in t2t": lambda run, library: altered(run, library, "t2t"),
}
"""Where vectors are averaged as a model gives them, so that longer ones weigh more."""


@pytest.fixture
def run(make_run, sample_library):
    return with_altered_queries(make_run(sample_library))


@pytest.mark.parametrize("name", OF_DIRECTIONS)
def test_the_length_of_each_vector_changes_nothing(name, run, sample_library):
    measure = OF_DIRECTIONS[name]
    np.testing.assert_equal(measure(scale_each(run), sample_library), measure(run, sample_library))


@pytest.mark.parametrize("exponent", [-80, 100])
@pytest.mark.parametrize("name", OF_MEANS)
def test_the_length_of_all_vectors_changes_nothing(name, exponent, run, sample_library):
    scaled = scale(run, [np.full(side.ids.size, exponent) for side in sides(run)])
    np.testing.assert_equal(OF_MEANS[name](scaled, sample_library), OF_MEANS[name](run, sample_library))


def test_queries_differing_only_in_length_are_unaltered(run, sample_library):
    longer = scale(run, [np.zeros(60, int), np.zeros(300, int)])
    longer.further["adversarial_size_embeddings"][5:45] *= 2.0**70
    for similarity in ("cosine", "dot"):
        short, long = (
            rerank(each, each, sample_library.split(), directions=["t2i"], similarity=similarity)
            for each in (run, longer)
        )
        assert short.moves["unchanged"].iloc[0] == 5
        assert short.scores == long.scores
