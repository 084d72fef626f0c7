"""An annotation project: all that was proposed, asked and answered, in one folder that can be committed.

::

    FOLDER/annotation.json              name, scheme, split, seed, and the data it is about
    FOLDER/rounds/1/round.json          how its pairs were proposed, and hashes of the tables beside it
    FOLDER/rounds/1/candidates.parquet  pairs to ask about, with who proposed them
    FOLDER/rounds/1/known.parquet       pairs that were proposed and are known to match: nobody is asked about them
    FOLDER/rounds/1/questions.parquet   the sheets, known pairs among the candidates
    FOLDER/rounds/1/answers.parquet     what was imported so far
    FOLDER/labels.parquet, README.md    what follows from the answers of all rounds

A step writes by one rename, so that a process that dies at any point leaves the project as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.annotation.asking.questions import Question
from cxc_eccv.annotation.asking.schemes import Scheme
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library

__all__ = ["Project", "Round"]


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What was proposed at once, and what people said of it.

    Attributes:
        number: from 1 on.
        facts: strategy, options, models with hashes, counts; the content of ``round.json``.
        candidates, known: tables of ``CANDIDATES``.
        sheets: what is asked, numbered from 0.
        answers: of :data:`cxc_eccv.annotation.answers.SCHEMA`, sheets numbered as above; no row before an import.
    """

    number: int
    facts: Mapping[str, Any]
    candidates: pa.Table
    known: pa.Table
    sheets: list[list[Question]]
    answers: pa.Table


@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """The state of a project as it was read; each step writes, and gives the state after it.

    Attributes:
        folder: where it is.
        name: of the source of labels that it makes.
        scheme: how people are asked.
        split: of COCO.
        seed: of all draws; round N draws by ``seed + N - 1``.
        rounds: in order; none before the first is proposed.
    """

    folder: Path
    name: str
    scheme: Scheme
    split: str
    seed: int
    data: Mapping[str, Any]
    rounds: tuple[Round, ...] = ()

    @classmethod
    def create(
        cls,
        folder: str | Path,
        library: Library,
        *,
        name: str,
        scheme: str = "eccv",
        split: str = "test",
        seed: int = 0,
    ) -> Project:
        """A project without a round; nothing is written before the first one is proposed."""
        raise NotImplementedError

    @classmethod
    def open(cls, folder: str | Path, library: Library) -> Project:
        """The project in a folder, every file of it checked."""
        raise NotImplementedError

    def propose(
        self,
        runs: Mapping[str, Run],
        library: Library,
        *,
        size: int = 18,
        **options: Any,  # noqa: ANN401 - of cxc_eccv.annotation.proposing.propose
    ) -> Project:
        """Add a round: candidates that no earlier round asked about, in sheets."""
        raise NotImplementedError

    def add_answers(self, paths: Iterable[str | Path], *, format: str = "jsonl") -> Project:
        """Add what people answered, all files or none."""
        raise NotImplementedError

    def merge(
        self,
        library: Library,
        *,
        rule: str = "majority",
        version: str = "1.0.0",
        by_hand: Iterable[tuple[int, str]] = (),
    ) -> pa.Table:
        """Write ``labels.parquet`` and ``README.md``; gives the labels."""
        raise NotImplementedError

    def candidates(self) -> pa.Table:
        """Those of all rounds."""
        raise NotImplementedError

    def questions(self) -> list[list[Question]]:
        """The sheets of all rounds, one after the other."""
        raise NotImplementedError

    def answers(self) -> pa.Table:
        """Those of all rounds; ``sheet`` is the place in :meth:`questions`."""
        raise NotImplementedError
