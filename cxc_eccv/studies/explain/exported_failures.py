"""Failures as questions to people: a sample of them among known pairs, from the table that ``explain`` wrote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.evaluation.request import EVALUATION_SPLITS
from cxc_eccv.judgments.evidence.source import MERGED, official_sources
from cxc_eccv.judgments.merging import merge
from cxc_eccv.sources.catalog import ALL_SPLITS
from cxc_eccv.sources.collections.collection import collections
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.sources.reading import parse_json, read_table
from cxc_eccv.studies.asking.formats import find_format
from cxc_eccv.studies.asking.image_addresses import find_images
from cxc_eccv.studies.asking.questionnaire import Handout, describe_questions, list_files
from cxc_eccv.studies.asking.questions import (
    CANDIDATE,
    CANDIDATES_A_SHEET,
    NEGATIVE,
    POSITIVE,
    Questionnaire,
    ask,
)
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.explain.failed_queries import INFORMED, MATCHED, MEASURES
from cxc_eccv.types import check_whole
from cxc_eccv.wording import count

SCHEME = schemes()["failures"]

CORRELATED = (*MEASURES, *(f"{name}{INFORMED}" for name in MEASURES))

FAILURE_COLUMNS = ("direction", "query_id", "truth_id", "retrieved_id", MATCHED, *CORRELATED)


def export_failures(
    explained: pa.Table,
    output: str | Path,
    split: Split,
    *,
    form: str = "html",
    images: str | Path = "coco",
    sample: int = 100,
    keywords: int = 1,
    seed: int = 0,
) -> list[Path]:
    """Write randomly drawn failures for people to rate, with a known match and mismatch to every 18 of them.

    Failures whose query has fewer matched ``keywords`` are left out, see
    :func:`~cxc_eccv.studies.explain.keyword_matching.match_keywords`.
    """
    check_whole("sample", sample)
    check_whole("seed", seed, least=0)
    check_whole("keywords", keywords, least=0)
    matched = set(name_failures(keep_matched(explained, keywords)))
    questionnaire = ask_failures(explained, split)
    places: dict[str, list[int]] = {CANDIDATE: [], POSITIVE: [], NEGATIVE: []}
    for place, (question,) in enumerate(questionnaire.sheets):
        if question.role != CANDIDATE or question.pair_id in matched:
            places[question.role].append(place)
    number = len(places[CANDIDATE])
    if number < sample:
        matching = f" with {count(keywords, 'matched keyword')} or more" if keywords else ""
        raise InvalidOption(
            f"there are only {number:,} failures of text queries{matching}, not {sample:,}: lower the sample"
        )
    random = np.random.default_rng(seed)
    n_known = -(-sample // CANDIDATES_A_SHEET)
    numbers = {CANDIDATE: sample, **{role: min(n_known, len(places[role])) for role in (POSITIVE, NEGATIVE)}}
    drawn: list[int] = []
    for role, size in numbers.items():
        drawn += random.choice(places[role], size, replace=False).tolist()
    names = list_files([questionnaire.sheets[place][0] for place in drawn], SCHEME)
    addresses = find_images(images, names, split)
    questions = describe_questions([questionnaire], addresses, drawn)
    return find_format(form).export(output, questions, Handout(SCHEME))


def keep_matched(explained: pa.Table, keywords: int) -> pa.Table:
    """The failures of text queries with at least this many matched keywords."""
    return explained.filter(pc.fill_null(pc.greater_equal(explained[MATCHED], keywords), False))


def ask_failures(explained: pa.Table, split: Split) -> Questionnaire:
    """Every failure of a text query, and the known pairs of all captions of the split, in the order of their ids."""
    asked = explained.filter(pc.not_equal(explained["direction"].cast("string"), "i2t"))
    pairs = asked.select(["query_id", "truth_id", "retrieved_id"]).to_pandas()
    pairs = pairs.assign(pair_id=name_failures(asked), role=CANDIDATE)
    known = pd.DataFrame(_list_known(split), columns=["query_id", "truth_id", "retrieved_id", "role"])
    known["pair_id"] = [f"t2i-{query}-{truth}-{other}" for query, truth, other, _ in known.itertuples(index=False)]
    pairs = pd.concat([pairs, known]).drop_duplicates("pair_id").sort_values("pair_id")
    ids = {"query_id": "caption_id", "truth_id": "other_id", "retrieved_id": "image_id"}
    questions = ask(split, pairs.rename(columns=ids))
    return Questionnaire(SCHEME, [[question] for question in questions], portable=True)


def _list_known(split: Split) -> Iterator[tuple[int, int, int, str]]:
    """Yield query, right image, other image and role of two known pairs of every caption of the split.

    The other image of a match is one that a source calls positive, if any, and that of a mismatch any that none does.
    They depend on nothing but the data, so that answers count for the failures of every model.
    """
    images = split.image_ids.tolist()
    matches = defaultdict(set)
    if split.name != ALL_SPLITS:  # sources judge single splits
        merged = merge(split, "t2i", sources=[name for name in official_sources() if name in MERGED])
        captions = merged.query_ids[merged.queries[merged.positive]].tolist()
        positives = merged.gallery_ids[merged.items[merged.positive]].tolist()
        for caption, image in zip(captions, positives, strict=True):
            matches[caption].add(image)
    for query, truth in zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True):
        start = int.from_bytes(blake2b(str(query).encode(), digest_size=8).digest())
        matching = matches[query] | {truth}
        others = sorted(matching - {truth})
        if others:
            yield query, truth, others[start % len(others)], POSITIVE
        for step in range(len(images)):
            image = images[(start + step) % len(images)]
            if image not in matching:
                yield query, truth, image, NEGATIVE
                break


def read_failures(folder: str | Path, library: Library) -> tuple[pa.Table, Split]:
    """Read the failures of all models and directions from ``cxc-eccv explain --output``, and their split."""
    path = Path(folder) / "failures.parquet"
    if not path.is_file():
        raise DataError(f"{path} is missing. Give a folder written by cxc-eccv explain --output.")
    expected = "the file that cxc-eccv explain --output wrote; run it again"
    table = read_table(path, expected)
    try:
        facts = parse_json((table.schema.metadata or {})[b"explained"].decode(), path)
        ((split, collection),) = {(model["split"], model["collection"]) for model in facts.values()}
        if split not in (*EVALUATION_SPLITS, ALL_SPLITS) or collection not in collections():
            raise LookupError(f"split {split!r} of {collection!r}")
        table.select(FAILURE_COLUMNS)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise MalformedSource(path, "", f"a table of other content ({error})", expected) from None
    return table, library.split(split, collection)


def name_failures(explained: pa.Table) -> list[str]:
    """An id of each failure: direction, query, right image and retrieved one."""
    columns = (explained[name].to_pylist() for name in ("direction", "query_id", "truth_id", "retrieved_id"))
    return ["-".join(map(str, row)) for row in zip(*columns, strict=True)]
