"""What is said to be of cosine depends on directions alone: scaled by powers of two, vectors give the same numbers."""

from dataclasses import replace

import numpy as np
import pytest
from label_loop.scorers import place_images

from cxc_eccv.encoding.cross_encoding import _take_vectors
from cxc_eccv.encoding.distributed.sharded_ranks import split_ranks
from cxc_eccv.evaluation import evaluate
from cxc_eccv.ranking.scores import to_unit_length
from cxc_eccv.registry import task
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sts.evaluation import cosines
from cxc_eccv.studies.annotation.proposing.strategies.cxc import choose_caption_pairs, choose_image_pairs
from cxc_eccv.studies.entailment.mining import _with_image_vectors
from cxc_eccv.studies.explain.failures import find_failures
from cxc_eccv.studies.explain.query_corpus import collect_captions, evaluate_query_corpus
from cxc_eccv.studies.explain.reranking import rerank
from cxc_eccv.types import Embeddings


def score(run, library, **options):
    return evaluate(run, data_dir=library, intervals="none", confidence=None, progress=False, **options).scores


def query_corpus(run, library, **options):
    captions = collect_captions(library, "coco")
    return evaluate_query_corpus(captions, run.captions.vectors, library, collection="coco", **options).scores


def altered(run, library, direction):
    return rerank(run, run, library, directions=[direction]).scores


def mined(run, library):
    content = library.karpathy("test")
    return _with_image_vectors(replace(run, images=None), content, None).images.vectors


def placed(run, library):
    found = place_images(run, library.karpathy("test"))
    return {side: getattr(found, side).vectors for side in ("images", "captions")}


def sharded(run, library):
    return split_ranks(run, "t2i", task("coco_5k").judgments(library, "test", "t2i")).ranks


def failed(run, library):
    found = find_failures(run, library, "test", "t2t")
    return found.query_ids, found.item_ids, found.rival_ids


def proposed(run, library, choose):
    table = choose({"model": run}, library.karpathy("test"))
    return {name: np.asarray(table[name]) for name in table.column_names}


OF_DIRECTIONS = {
    "evaluate": score,
    "evaluate on a torch device": lambda run, library: score(run, library, device="cpu"),
    "ranks of a sharded gallery": sharded,
    "failures": failed,
    "altered queries": lambda run, library: altered(run, library, "t2i"),
    "query-corpus, normalised": lambda run, library: query_corpus(run, library, normalise=True),
    "sts": lambda run, _: cosines(run.images.vectors[:40], run.captions.vectors[:40]),
    "entailment mining": mined,
    "lists of a cross-encoder": lambda run, _: _take_vectors(run, run.captions.ids, "captions"),
    "simulated annotators": placed,
    "caption pairs to annotate": lambda run, library: proposed(run, library, choose_caption_pairs),
    "unit vectors": lambda run, _: to_unit_length(run.captions.vectors),
}
"""Where the length of no single vector counts."""

OF_MEANS = {
    "query-corpus": query_corpus,
    "altered queries in t2t": lambda run, library: altered(run, library, "t2t"),
    "image pairs to annotate": lambda run, library: proposed(run, library, choose_image_pairs),
}
"""Where vectors are averaged as a model gives them, so that longer ones weigh more."""


@pytest.fixture
def run(make_run, sample_library):
    """A run with altered queries, each beside its original."""
    run = make_run(sample_library)
    own, random = run.captions, np.random.default_rng(1)
    turned = (own.vectors[:80] + random.standard_normal((80, 16))).astype(np.float32)
    turned[:5] = own.vectors[:5]
    return replace(run, further={"adversarial_size_ids": own.ids[:80], "adversarial_size_embeddings": turned})


def scale(run, exponents):
    """The run with its vectors times these powers of two; an altered query is as long as its original."""
    images, captions = (np.ldexp(side.vectors, own[:, None]) for side, own in zip(sides(run), exponents, strict=True))
    further = dict(run.further)
    further["adversarial_size_embeddings"] = np.ldexp(further["adversarial_size_embeddings"], exponents[1][:80, None])
    return EmbeddingsRun(Embeddings(run.images.ids, images), Embeddings(run.captions.ids, captions), further=further)


def sides(run):
    return run.images, run.captions


@pytest.mark.parametrize("name", OF_DIRECTIONS)
def test_the_length_of_each_vector_changes_nothing(name, run, sample_library):
    random = np.random.default_rng(0)
    scaled = scale(run, [random.integers(-80, 100, side.ids.size) for side in sides(run)])
    measure = OF_DIRECTIONS[name]
    np.testing.assert_equal(measure(scaled, sample_library), measure(run, sample_library))


@pytest.mark.parametrize("exponent", [-80, 100])
@pytest.mark.parametrize("name", OF_MEANS)
def test_the_length_of_all_vectors_changes_nothing(name, exponent, run, sample_library):
    scaled = scale(run, [np.full(side.ids.size, exponent) for side in sides(run)])
    np.testing.assert_equal(OF_MEANS[name](scaled, sample_library), OF_MEANS[name](run, sample_library))


def test_queries_that_differ_in_length_alone_are_not_altered(run, sample_library):
    longer = scale(run, [np.zeros(60, int), np.zeros(300, int)])
    longer.further["adversarial_size_embeddings"][5:45] *= 2.0**70
    for similarity in ("cosine", "dot"):
        rows = [
            rerank(own, own, sample_library, directions=["t2i"], similarity=similarity).rows[0] for own in (run, longer)
        ]
        assert rows[0].unchanged == 5
        assert rows[0].scores == rows[1].scores


def test_the_similarity_of_a_model_is_found_whatever_the_scale(run):
    torch = pytest.importorskip("torch")
    from cxc_eccv.integrations.scoring import make_run as run_of

    def cosine(left, right):
        left, right = (torch.nn.functional.normalize(torch.as_tensor(side), dim=-1) for side in (left, right))
        return left @ right.T

    def dot(left, right):
        return torch.as_tensor(left) @ torch.as_tensor(right).T

    for compare in (cosine, dot):
        for exponent in (-80, 0, 100):
            scaled = scale(run, [np.full(side.ids.size, exponent) for side in sides(run)])
            assert run_of(*sides(scaled), compare, "a model").similarity == compare.__name__
