"""The card of a set of labels: what they are, who gave them, by which rule, and how to use them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.annotation.asking.schemes import schemes
from cxc_eccv.annotation.labelling.settling import RULES
from cxc_eccv.sources.readers import LABELS_SCHEMA

__all__ = ["label_card"]

CARD = Path(__file__).parent / "templates" / "labels.md.jinja"

FIELDS = {
    "image_id": "the image's COCO id",
    "caption_id": "the caption's COCO id",
    "gain": "how well they match, from 0 to 1",
    "positive": "whether they match at all: exactly where the gain is above 0",
    "answers": "people who answered and count",
}

COUNTS = {
    "answers": "answers about candidates",
    "answers_not_accepted": "of sheets that were not accepted",
    "answers_given_again": "of a person who answered anew",
    "pairs": "pairs asked about",
    "pairs_without_accepted_answer": "pairs without an accepted answer",
    "pairs_with_too_few_answers": "pairs with too few answers",
    "labels": "labelled pairs",
    "positives": "positives",
}
"""What ``describe_labels`` counts, as the card calls it."""


def label_card(facts: Mapping[str, Any], table: pa.Table) -> str:
    """The card of a folder with ``labels.parquet``; with it plain ``datasets`` and the Hub's viewer know the file.

    Args:
        facts: of the label file, as of :class:`cxc_eccv.sources.readers.LabelFile`. The card shows besides, where they
            are there, what ``describe_labels`` found, and ``licence`` (an id of the Hub) and ``citation`` (BibTeX).
        table: the labels.

    Returns:
        The text of ``README.md``.
    """
    import datasets
    from huggingface_hub import DatasetCard, DatasetCardData

    from cxc_eccv import __version__
    from cxc_eccv.builders import cards, markdown
    from cxc_eccv.shown import code_span, markdown_text
    from cxc_eccv.sources.catalog import load_catalog

    split, scheme, catalog = str(facts["split"]), schemes()[facts["scheme"]], load_catalog()
    # datasets finds its cache of a local folder by the front matter alone, see builders/cards.py.
    content = hashlib.sha256(json.dumps(table.to_pydict()).encode()).hexdigest()
    features = datasets.Features.from_arrow_schema(LABELS_SCHEMA)
    sizes = {split: (table.num_rows, table.nbytes)}
    card_data = DatasetCardData(
        pretty_name=f"{facts['name']}: matches of MS-COCO that people verified",
        language=cards.LANGUAGE,
        license=facts.get("licence", "unknown"),
        size_categories=cards.size_category(table.num_rows),
        task_categories=["image-to-text", "text-to-image"],
        tags=["image-text-retrieval", "ms-coco"],
        configs=[{"config_name": "default", "data_files": [{"split": split, "path": "labels.parquet"}]}],
        dataset_info=[cards.dataset_info("default", features, sizes, description=f"sha256 {content}")],
    )
    positive = int(pc.sum(table["positive"]).as_py())
    people = [(facts["name"], split, table.num_rows, positive, facts["people"], str(facts["version"]))]
    agreement, counts = facts.get("agreement"), facts.get("counts")
    models = [str(model["name"] if isinstance(model, Mapping) else model) for model in facts["models"]]
    found: str = DatasetCard.from_template(
        card_data,
        str(CARD),
        facts=facts,
        overview=markdown.table(
            ["name", "split", "labelled pairs", "positives", "people who answered", "version"],
            [[markdown_text(cell) if isinstance(cell, str) else cell for cell in row] for row in people],
        ),
        fields=markdown.table(
            ["field", "type", "meaning"],
            [(f"`{name}`", features[name].dtype, meaning) for name, meaning in FIELDS.items()],
        ),
        question=markdown_text(scheme.question),
        citation=markdown_text(scheme.citation),
        rule=RULES[facts["rule"]],
        counts=counts
        and markdown.table(["answers and pairs", "number"], [(COUNTS[name], n) for name, n in counts.items()]),
        agreement=agreement and _tell_agreement(agreement),
        models=", ".join(map(code_span, models)) or "No model: the pairs were drawn at random.",
        edition=code_span(facts["data"].get("edition", "unknown")),
        version=markdown_text(facts["version"]),
        package=__version__,
        example=markdown.fence(f'{cards.LOAD_HERE}split="{split}")\nprint(dataset[0])', "python"),
        command=markdown.fence(
            f"cxc-eccv evaluate model.npz --split {split} --labels PATH_OR_NAME --sources coco,cxc,{facts['name']}",
            "sh",
        ),
        licence=markdown_text(facts["licence"]) if "licence" in facts else "",
        own_citation=markdown.fence(str(facts["citation"]).strip(), "bibtex") if "citation" in facts else "",
        citations=cards.citations(["eccv_caption"], catalog),
    ).content
    return found


def _tell_agreement(agreement: Mapping[str, Any]) -> str:
    if not agreement["pairs"]:
        return "No pair was judged by several people, so that nothing tells how well they agree."
    return (
        f"Of {agreement['pairs']:,} pairs that several people judged, all agree about {agreement['unanimous']:,} "
        "whether they are positive. Falotico and Quatto's kappa, agreement above that of answers by the toss of a "
        f"coin, is {agreement['falotico_quatto_kappa']:.2f}."
    )
