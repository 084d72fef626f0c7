"""Averaged word vectors from a user's file: a caption is the mean of its words."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.cli.demo import words
from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.evaluation import evaluate
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.baselines.untrained import Baseline, Inputs
from cxc_eccv.types import Embeddings

Vector = NDArray[np.float32]


def read_word_vectors(path: Path, keep: Collection[str]) -> dict[str, Vector]:
    """Read the vectors of some words from a file like GloVe's or word2vec's, line by line to save memory."""
    vectors: dict[str, Vector] = {}
    width = 0
    if not path.is_file():
        raise MalformedSource(path, "", "no file", "word vectors, a word and its numbers per line")
    with path.open(encoding="utf-8", errors="strict", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            cells = line.rstrip("\r\n").rstrip(" ").split(" ")
            if number == 1 and len(cells) == 2 and all(cell.isdigit() for cell in cells):
                continue
            width = width or len(cells) - 1
            # A few words of the large files contain spaces; the last D cells are the numbers.
            word = " ".join(cells[:-width]) if width else ""
            if not word:
                raise MalformedSource(
                    path, f"line {number}", f"{len(cells)} cells", f"a word and {width or 'its'} numbers"
                )
            if word in keep:
                vectors[word] = _numbers(path, number, cells[-width:])
    if not vectors:
        raise MalformedSource(path, "", f"none of {len(keep):,} words", "vectors of words of the captions")
    return vectors


def _numbers(path: Path, line: int, cells: Sequence[str]) -> Vector:
    try:
        vector = np.array(cells, dtype=np.float32)
    except ValueError:
        vector = np.full(1, np.nan, dtype=np.float32)
    if not np.isfinite(vector).all():
        raise MalformedSource(path, f"line {line}", repr(" ".join(cells))[:60], "finite numbers")
    return vector


@dataclass(frozen=True, slots=True, eq=False)
class AveragedVectors:
    """A text encoder: the mean vector of a text's known words in lower case, with repetitions."""

    vectors: dict[str, Vector]

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) means; a text without known words gets the mean of all words, as GloVe's authors suggest."""
        every = np.mean(list(self.vectors.values()), axis=0)
        result = np.empty((len(texts), every.size), dtype=np.float32)
        empty = 0
        for place, text in enumerate(texts):
            known = [self.vectors[word] for word in words(text) if word in self.vectors]
            result[place] = np.mean(known, axis=0) if known else every
            empty += not known
        if empty:
            warnings.warn(
                f"{empty} of {len(texts)} texts have no word with a vector; they get the mean vector of all words",
                stacklevel=2,
            )
        return result


def run(split: Split, inputs: Inputs) -> tuple[Report, EmbeddingsRun]:
    """Every task of captions only."""
    if inputs.vectors is None:
        raise InvalidOption("the baseline word_vectors needs --vectors FILE, for example GloVe's glove.6B.300d.txt")
    captions = split.captions
    texts = captions["text"].to_pylist()
    encoder = AveragedVectors(read_word_vectors(inputs.vectors, {word for text in texts for word in words(text)}))
    averaged = EmbeddingsRun(None, Embeddings(captions["caption_id"].to_numpy(), encoder(texts)), similarity="cosine")
    report = evaluate(averaged, split=split.name, data_dir=split.library, per_query=True)
    name = f"averaged word vectors of {inputs.vectors.name}"
    return replace(report, provenance=replace(report.provenance, model=name)), averaged


BASELINE = Baseline(
    name="word_vectors",
    summary="the mean of a caption's word vectors, read from a file of yours; text-text retrieval and similarity",
    run=run,
    takes=("vectors",),
)
