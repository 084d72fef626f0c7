"""What is said to be of cosine depends on directions alone: scaled by powers of two, vectors give the same numbers."""

import numpy as np
import pytest
from scaled_runs import scale, scale_each, sides, with_altered_queries

from cxc_eccv.encoding.cross_encoding import find_candidates
from cxc_eccv.encoding.processes import split_ranks
from cxc_eccv.evaluation import evaluate
from cxc_eccv.ranking.scores import to_unit_length
from cxc_eccv.registry import task
from cxc_eccv.sts.correlations import cosines


def score(run, library, **options):
    return evaluate(run, data_dir=library, intervals="none", confidence=None, progress=False, **options).scores


def sharded(run, library):
    return split_ranks(run, "t2i", task("coco_5k").judgments(library.split("test"), "t2i")).ranks


OF_DIRECTIONS = {
    "evaluate": score,
    "evaluate on a torch device": lambda run, library: score(run, library, device="cpu"),
    "ranks of a sharded gallery": sharded,
    "sts": lambda run, _: cosines(run.images.vectors[:40], run.captions.vectors[:40]),
    "lists of a cross-encoder": lambda run, _: find_candidates(run, run.images.ids, run.captions.ids, 5),
    "unit vectors": lambda run, _: to_unit_length(run.captions.vectors),
}
"""Where the length of no single vector counts."""


@pytest.fixture
def run(make_run, sample_library):
    return with_altered_queries(make_run(sample_library))


@pytest.mark.parametrize("name", OF_DIRECTIONS)
def test_the_length_of_each_vector_changes_nothing(name, run, sample_library):
    measure = OF_DIRECTIONS[name]
    np.testing.assert_equal(measure(scale_each(run), sample_library), measure(run, sample_library))


def test_similarity_of_model_is_found_at_any_scale(run):
    torch = pytest.importorskip("torch")
    from cxc_eccv.integrations.model_runs import make_run as run_of

    def cosine(left, right):
        left, right = (torch.nn.functional.normalize(torch.as_tensor(side), dim=-1) for side in (left, right))
        return left @ right.T

    def dot(left, right):
        return torch.as_tensor(left) @ torch.as_tensor(right).T

    for compare in (cosine, dot):
        for exponent in (-80, 0, 100):
            scaled = scale(run, [np.full(side.ids.size, exponent) for side in sides(run)])
            assert run_of(*sides(scaled), compare, "a model").similarity == compare.__name__
