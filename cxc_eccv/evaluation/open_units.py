"""The units of one number of a run, before people are asked about some of them."""

from __future__ import annotations

from collections.abc import Sequence

from cxc_eccv.errors import InvalidOption, raise_all
from cxc_eccv.evaluation.bounds import BoundsOfNeeds, Units
from cxc_eccv.evaluation.measure import find_faults, measure
from cxc_eccv.evaluation.report import choose_similarity
from cxc_eccv.evaluation.select import select
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.ranking.scores import one_blas_thread
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library


def open_units(
    run: Run, key: str, library: Library, split: str, settings: Settings, sources: Sequence[str] | None = None
) -> Units:
    """The units of the number ``task/direction/metric`` of a run, with the probabilities of the settings."""
    part, _, metric = key.rpartition("/")
    if part.count("/") != 1:
        raise InvalidOption(f"number {key!r}: give task/direction/metric, such as coco_5k/t2i/recall_at_1")
    with one_blas_thread():
        chosen = select(run, [part], library, split, [metric], sources=sources)
        raise_all([*chosen.refused, *find_faults(run, chosen.parts, library, named=True, strict=True)])
        needs = [need for each in chosen.parts for need in each.needs]
        bounds = BoundsOfNeeds(run, needs, library, split, settings.depth, chosen.sources)
        measure(run, chosen.parts, choose_similarity(run, similarity=None)["similarity"], bounds)
    for each in chosen.parts:
        for variant, need in each.needs_of_variants:
            if each.key == part and variant.label == metric:
                return bounds.units(need, variant, settings.on(library, split, each.task.collection))
    raise InvalidOption(f"{key}: {part} has no metric {metric}")
