"""How far do shared words follow CxC's ratings? TF-IDF cosines by rating, as in Figure 5 of the CxC paper.

    CXC_ECCV_DATA=mirror python tools/experiments/similarity_by_rating.py --chart docs/assets/similarity_by_rating.svg

No picture is looked at: an image stands for its captions, and the largest cosine counts; a caption is not compared with
itself.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from cxc_eccv.cli.demo import TfIdf
from cxc_eccv.judgments.merging import rated_pairs
from cxc_eccv.metrics.bootstrap_spearman import bootstrap_spearman
from cxc_eccv.presentation.quartile_plot import Panel, QuartilePlot, Quartiles
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.tasks.cxc import HALF_POINTS
from cxc_eccv.types import FloatArray, IntArray, RatedPairs
from cxc_eccv.types.rating_bin import bin_similarities

SPLIT = "validation"
KINDS = {"sts": "STS, caption pairs", "sis": "SIS, image pairs", "sits": "SITS, image-caption pairs"}
IMAGE_SIDES = {"sts": (False, False), "sis": (True, True), "sits": (True, False)}
"""Whether queries and items are images."""


def main() -> None:
    """Print the correlations and the quartiles, and draw the quartiles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chart", type=Path, help="SVG file of the quartiles")
    arguments = parser.parse_args()
    plot = plot_words(Library().split(SPLIT))
    print(plot.description)
    if arguments.chart is not None:
        plot.draw().save(arguments.chart)


def plot_words(content: Split) -> QuartilePlot:
    """The TF-IDF cosines of each kind of pairs, a panel each."""
    panels = []
    for kind, name in KINDS.items():
        pairs = rated_pairs(content, kind)
        cosines = compare_words(content, pairs, *IMAGE_SIDES[kind])
        correlation = float(bootstrap_spearman(pairs, cosines).mean())
        ranges = [
            Quartiles(
                each.rating_from, each.rating_to, each.n_pairs, each.first_quartile, each.median, each.third_quartile
            )
            for each in bin_similarities(pairs.ratings, cosines, HALF_POINTS)
        ]
        panels.append(Panel(name, f"Spearman {correlation:.3f}", ranges))
    return QuartilePlot(f"TF-IDF cosines of captions by rating, {SPLIT} split", "rating", "cosine", panels)


def compare_words(content: Split, pairs: RatedPairs, queries_are_images: bool, items_are_images: bool) -> FloatArray:
    """(P,) the largest cosine of a caption of the query and another caption of the item."""
    texts = content.captions["text"].to_pylist()
    words = TfIdf.fit(texts).encode(texts)
    left = find_captions(content, pairs.query_ids, queries_are_images)
    right = find_captions(content, pairs.item_ids, items_are_images)
    largest = np.zeros(pairs.ratings.size)
    for column_left in left.T:
        for column_right in right.T:
            cosines = np.asarray(words[column_left].multiply(words[column_right]).sum(axis=1))
            largest = np.maximum(largest, np.where(column_left == column_right, 0, cosines))
    return largest


def find_captions(content: Split, ids: IntArray, are_images: bool) -> IntArray:
    """(P, 1) rows of captions, or (P, 5) rows of the first five captions of images."""
    owners = content.caption_image_ids if are_images else content.caption_ids
    rows_of: dict[int, list[int]] = {}
    for row, owner in enumerate(owners.tolist()):
        rows_of.setdefault(owner, []).append(row)
    width = 5 if are_images else 1
    return np.array([rows_of[each][:width] for each in ids.tolist()])


if __name__ == "__main__":
    main()
