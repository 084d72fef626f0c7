"""The files of the rounds of an annotation project: proposed pairs and people's answers.

JSON files have a checksum of their content, not of their bytes, since version control may change line ends; the hashes
of tables are in ``round.json``. Answers are only added: each has the number of its import, and of several answers of a
person to a question that of the last import counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource, SourceMissing
from cxc_eccv.parquet import write_parquet
from cxc_eccv.runs import Run
from cxc_eccv.sources.download import sha256_of
from cxc_eccv.sources.reading import check_content, parse_metadata, read_json, read_table, require_keys, shown
from cxc_eccv.studies.annotation.proposing import CANDIDATES
from cxc_eccv.studies.asking.answers import READ, SCHEMA, identify_worker, refuse_many_rows
from cxc_eccv.studies.asking.questions import Question, Questionnaire, sheets_from_table, sheets_to_table
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.types.strict_json import COUNT, MAPPING, OR_NOTHING, TEXT, Each, Shape
from cxc_eccv.writing import replaced_file, replaced_folder, write_json

FORMAT = 1

FACTS = b"cxc_eccv"
"""Metadata key of the facts on stored answers, as JSON."""

ROUNDS, ROUND, STORED = "rounds", "round.json", "answers.parquet"
TABLES = ("candidates", "known", "questions")

STORED_ANSWERS = READ.append(pa.field("import", pa.int32()))
"""Answers, each with its file, its place there, and the number of its import; older files lack the number."""

RESTORE = "restore it, for example from version control"

ROUND_CONTENT = {
    "project": TEXT,
    "round": COUNT,
    "request": OR_NOTHING,
    "questionnaire": TEXT,
    "files": {f"{name}.parquet": TEXT for name in TABLES},
    "proposal": {
        "strategy": TEXT,
        "options": MAPPING,
        "counts": Each(COUNT),
        "models": Each({"run": MAPPING, "similarity": OR_NOTHING}),
    },
}
"""The structure of round.json."""


@dataclass(frozen=True, eq=False)
class Round:
    """A round: proposed pairs, their sheets, and people's answers."""

    number: int  # from 1 on
    folder: Path
    facts: Mapping[str, Any]  # the content of round.json: the request, the facts of the strategy, and hashes
    candidates: pa.Table  # of CANDIDATES
    known: pa.Table  # of CANDIDATES
    questionnaire: Questionnaire  # sheets are numbered from its ``first`` on
    stored: Sequence[Mapping[str, Any]]  # of STORED_ANSWERS; sheets are numbered from 0

    @property
    def sheets(self) -> Sequence[Sequence[Question]]:
        """The sheets in the order of their numbers."""
        return self.questionnaire.sheets

    @property
    def numbers(self) -> range:
        """The numbers of the sheets, which count across all rounds."""
        return range(self.questionnaire.first, self.questionnaire.first + len(self.sheets))

    @cached_property
    def latest(self) -> dict[tuple[int, str, str], Mapping[str, Any]]:
        """(sheet number, worker, pair id) to the answer that counts, in the order of the questions."""
        by_key: dict[tuple[int, str, str], Mapping[str, Any]] = {}
        for row in sorted(self.stored, key=lambda row: row["import"]):
            sheet, worker = self.questionnaire.first + row["sheet"], identify_worker(row["worker"])
            by_key[sheet, worker, row["pair_id"]] = {**row, "sheet": sheet, "worker": worker}
        places = {question.pair_id: place for sheet in self.sheets for place, question in enumerate(sheet)}
        return {key: by_key[key] for key in sorted(by_key, key=lambda key: (*key[:2], places[key[2]]))}

    @property
    def answers(self) -> pa.Table:
        """The answers that count."""
        return pa.Table.from_pylist(list(self.latest.values()), schema=SCHEMA)


def round_numbers(folder: Path) -> list[int]:
    """The numbers of the rounds of a project, complete or not; SourceMissing if one is missing before others."""
    numbers = sorted(int(path.name) for path in (folder / ROUNDS).glob("[1-9]*") if path.name.isdecimal())
    for number in range(1, len(numbers) + 1):
        if number not in numbers:
            raise SourceMissing(f"{folder / ROUNDS / str(number)} is missing, but a later round exists; {RESTORE}")
    return numbers


def write_round(
    folder: Path,
    number: int,
    project: str,
    questionnaire: Questionnaire,
    tables: tuple[pa.Table, pa.Table],
    **facts: Any,  # noqa: ANN401 - written as JSON
) -> None:
    """Write a new round, by one rename; ``project`` is the checksum of ``annotation.json``."""
    with replaced_folder(folder / ROUNDS / str(number)) as place:
        for name, table in zip(TABLES, (*tables, sheets_to_table(questionnaire.sheets)), strict=True):
            write_parquet(table, place / f"{name}.parquet")
        content = {
            "project": project,
            "round": number,
            "sheets": len(questionnaire.sheets),
            "questionnaire": questionnaire.id,
            "files": {f"{name}.parquet": sha256_of(place / f"{name}.parquet") for name in TABLES},
        }
        write_json(place / ROUND, seal(content | facts))
        # Written from the start, so that a lost file of answers is noticed.
        store(place, questionnaire.id, [])


def read_round(folder: Path, number: int, project: str, scheme: Scheme, first: int) -> Round:
    """Read a round with its answers, and check all its files."""
    place = folder / ROUNDS / str(number)
    for path in (place / ROUND, place / STORED, *(place / f"{name}.parquet" for name in TABLES)):
        if not path.is_file():
            raise SourceMissing(f"{path} is missing; {RESTORE}")
    facts = unseal(place / ROUND, ROUND_CONTENT)
    if (facts["project"], facts["round"]) != (project, number):
        there = f"round {facts['round']}" + (" of another project" if facts["project"] != project else "")
        raise MalformedSource(place / ROUND, "", there, f"round {number} of this project; {RESTORE}")
    for name, expected in facts["files"].items():
        if sha256_of(place / name) != expected:
            raise MalformedSource(place / name, "", "a changed table", f"the table as written; {RESTORE}")
    tables = {name: read_table(place / f"{name}.parquet", "a table of this round") for name in TABLES}
    for name in TABLES[:2]:
        if not tables[name].schema.equals(CANDIDATES):
            raise MalformedSource(place / f"{name}.parquet", "", "other columns", f"the table as written; {RESTORE}")
    asked_as = scheme.without_reasons() if facts.get("without_reasons") else scheme
    questionnaire = Questionnaire(asked_as, sheets_from_table(tables["questions"]), first)
    if questionnaire.id != facts["questionnaire"]:
        there = shown(facts["questionnaire"])
        raise MalformedSource(place / ROUND, "questionnaire", there, "the id of its questions in this version")
    stored = _read_stored(place / STORED, questionnaire.id)
    return Round(number, place, facts, tables["candidates"], tables["known"], questionnaire, stored)


def store(folder: Path, questionnaire: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write all answers of a round, by one rename."""
    table = pa.Table.from_pylist(
        sorted(rows, key=itemgetter("sheet", "worker", "pair_id", "import")), schema=STORED_ANSWERS
    )
    facts = seal({"questionnaire": questionnaire, "rows": _checksum(table.to_pylist())})
    with replaced_file(folder / STORED) as part:
        write_parquet(table.replace_schema_metadata({FACTS: json.dumps(facts, sort_keys=True)}), part)


def _read_stored(path: Path, questionnaire: str) -> list[dict[str, Any]]:
    expected = f"a table of answers, as written by import; {RESTORE}"
    refuse_many_rows(path, "sheet")
    table = read_table(path, expected)
    facts = _check_seal(path, parse_metadata(path, table, FACTS, expected))
    if facts.get("questionnaire") != questionnaire:
        raise MalformedSource(path, "", "answers to other questions", f"answers to this round; {RESTORE}")
    rows: list[dict[str, Any]] = table.to_pylist()
    known = ([*READ.names], [*STORED_ANSWERS.names])
    if table.column_names not in known or facts.get("rows") != _checksum(rows):
        raise MalformedSource(path, "", "answers that were changed after import", f"the imported answers; {RESTORE}")
    return [{"import": 0, **row} for row in rows]


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its schema and a checksum; equal content gives equal bytes."""
    sealed = json.loads(json.dumps({"schema": FORMAT, **content}, allow_nan=False))
    return dict(json.loads(json.dumps({**sealed, "checksum": _checksum(sealed)}, sort_keys=True)))


def unseal(path: Path, shape: Shape) -> dict[str, Any]:
    """Read a sealed file; MalformedSource if it was changed, or written by another version."""
    content = _check_seal(path, read_json(path))
    check_content(path, content, shape)
    return content


def _check_seal(path: Path, read: object) -> dict[str, Any]:
    content = require_keys(path, "", read, ("schema", "checksum"))
    if content["schema"] != FORMAT:
        raise MalformedSource(path, "schema", shown(content["schema"]), f"{FORMAT}, which this version reads")
    if content["checksum"] != _checksum({name: value for name, value in content.items() if name != "checksum"}):
        raise MalformedSource(path, "", "content that was changed after writing", f"the content as written; {RESTORE}")
    return content


def _checksum(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def identify_request(runs: Mapping[str, Run], **options: Any) -> str | None:  # noqa: ANN401 - of any strategy
    """A hash that identifies a request; None if a run has no file."""
    if any(run.path is None for run in runs.values()):
        return None
    content = {"models": {name: run.facts() for name, run in runs.items()}, **options}
    given = {name: value for name, value in content.items() if value is not None}
    return hashlib.sha256(json.dumps(given, sort_keys=True, default=_to_json).encode()).hexdigest()


def _to_json(option: Any) -> Any:  # noqa: ANN401 - a table, ids or a classifier
    if isinstance(option, pa.Table):
        return option.to_pydict()
    return option.tolist() if isinstance(option, np.ndarray) else option.facts
