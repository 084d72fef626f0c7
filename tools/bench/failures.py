"""Time of the four metrics over 25,000 failures, as ratios to matching them with networkx, as their paper did.

Images are random: ``COCO`` has about three concepts of 80 and seven instances each, ``Visual Genome`` about 25 of 2,000
and 35. WordNet is read before. ``similarities`` is the table of all concepts, which ``non_common_similarity`` asks for
once; it is not part of ``all four``. networkx matches a sample of the same failures, with the same similarities at
hand, and its time is scaled up; it has to give the same values.

Example:
    NLTK_DATA=mirror/nltk_data python tools/bench/failures.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cxc_eccv.types import FloatArray
    from cxc_eccv.types.seen import Concepts

FAILURES = 25_000
IMAGES = 5_000
SAMPLE = 200
REPEATS = 3


def main() -> None:
    """Print a table."""
    from cxc_eccv.sources.wordnet import load_wordnet
    from cxc_eccv.studies.explain.concepts import synsets_of_categories

    corpus, random = load_wordnet(), np.random.default_rng(0)
    objects = sorted(
        {synset.name() for synset in corpus.synset("physical_entity.n.01").closure(lambda s: s.hyponyms())}
    )
    vocabularies = {
        "COCO": (sorted({entry.synset for entry in synsets_of_categories().values()}), 3, 7),
        "Visual Genome": (random.choice(objects, 2_000, replace=False).tolist(), 25, 35),
    }
    for source, (names, n_concepts, n_instances) in vocabularies.items():
        images = [draw(random, names, n_concepts, n_instances) for _ in range(IMAGES)]
        measure(source, images, random)


def draw(random: np.random.Generator, names: list[str], n_concepts: int, n_instances: int) -> Concepts:
    """What one image shows; some concepts are far more frequent than others."""
    places = np.unique((len(names) * random.uniform(size=1 + random.poisson(n_concepts - 1)) ** 2).astype(int))
    more = random.poisson(n_instances / n_concepts - 1, places.size)
    return {names[place]: random.uniform(0.001, 1, 1 + extra) for place, extra in zip(places, more, strict=True)}


def measure(source: str, images: list[Concepts], random: np.random.Generator) -> None:
    """The rows of one source."""
    from cxc_eccv.metrics.concept_agreement import concept_agreement
    from cxc_eccv.metrics.concept_enumeration import concept_enumeration
    from cxc_eccv.metrics.non_common_similarity import non_common_similarity
    from cxc_eccv.metrics.size_disagreement import size_disagreement
    from cxc_eccv.sources.wordnet import similarity_matrix
    from cxc_eccv.types.seen import ConceptPairs

    chosen = random.integers(0, IMAGES, (FAILURES, 2)).tolist()
    truths, retrieved = ([images[pair[side]] for pair in chosen] for side in (0, 1))
    names = sorted({name for shown in images for name in shown})
    table = similarity_matrix(names)
    places = {name: place for place, name in enumerate(names)}

    def similarity(asked: Sequence[str]) -> FloatArray:
        rows = [places[name] for name in asked]
        return table[np.ix_(rows, rows)]

    pairs = ConceptPairs(np.arange(FAILURES), truths, retrieved)
    work: dict[str, Callable[[], object]] = {
        "check": partial(ConceptPairs, np.arange(FAILURES), truths, retrieved),
        "concept_agreement": partial(concept_agreement, pairs),
        "non_common_similarity": partial(non_common_similarity, pairs, similarity),
        "concept_enumeration": partial(concept_enumeration, pairs),
        "size_disagreement": partial(size_disagreement, pairs),
    }
    taken = {name: seconds(own) for name, own in work.items()}
    taken["all four"] = sum(taken.values())
    some = ConceptPairs(np.arange(SAMPLE), truths[:SAMPLE], retrieved[:SAMPLE])
    start = time.process_time()
    theirs = [match_with_networkx(*both, places, table) for both in zip(some.truths, some.retrieved, strict=True)]
    taken["networkx"] = (time.process_time() - start) * FAILURES / SAMPLE
    ours = zip(non_common_similarity(some, similarity), size_disagreement(some), strict=True)
    np.testing.assert_allclose(list(ours), theirs, atol=1e-9)
    taken["similarities"] = seconds(partial(similarity_matrix, names))
    print(f"{source}: {FAILURES:,} failures, {len(names):,} concepts, {np.mean([*map(len, images)]):.1f} an image")
    for name, own in taken.items():
        print(f"{name:>24}{own:10.2f} s{own / taken['networkx']:10.4f}")


def match_with_networkx(
    truth: Concepts, shown: Concepts, places: dict[str, int], table: FloatArray
) -> tuple[float, float]:
    """NCS and SD of one failure, by the functions that the paper names."""
    import networkx
    from networkx.algorithms.bipartite import minimum_weight_full_matching

    graph, ncs, sizes = networkx.Graph(), np.nan, []
    for one in truth.keys() - shown.keys():
        for other in shown.keys() - truth.keys():
            graph.add_edge(one, other, weight=table[places[one], places[other]])
    if graph:
        matched = networkx.max_weight_matching(graph, maxcardinality=True)
        ncs = float(np.mean([table[places[one], places[other]] for one, other in matched]))
    for name in truth.keys() & shown.keys():
        graph = networkx.Graph()
        for row, one in enumerate(truth[name].tolist()):
            for column, other in enumerate(shown[name].tolist()):
                graph.add_edge(("truth", row), ("shown", column), weight=abs(one - other) / min(one, other))
        partners = minimum_weight_full_matching(graph, [("truth", row) for row in range(truth[name].size)])
        sizes += [graph.edges[node, other]["weight"] for node, other in partners.items() if node[0] == "truth"]
    return ncs, float(np.mean(np.array(sizes) >= 1)) if sizes else np.nan


def seconds(work: Callable[[], object]) -> float:
    """Processor time, of one thread, at the best of a few calls: what else the machine does matters less."""
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
