"""The rounds of an annotation project as files: what was proposed at once, and what people said of it.

Every file is read as if somebody had changed it. JSON carries a checksum of its content, not of its bytes, as version
control may change line ends; tables are known by hashes in ``round.json``; and stored answers are checked against the
questions once more, as when they came.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.errors import InvalidOption, MalformedSource, SourceMissing
from cxc_eccv.parquet import write_parquet
from cxc_eccv.sources.reading import (
    check_content,
    parse_metadata,
    read_json,
    read_table,
    require_keys,
    sha256_of,
    shown,
)
from cxc_eccv.studies.annotation.proposing.candidates import CANDIDATES
from cxc_eccv.studies.asking.answers import SCHEMA as ANSWERS
from cxc_eccv.studies.asking.answers import read_answers
from cxc_eccv.studies.asking.exchange import formats
from cxc_eccv.studies.asking.questionnaire import questionnaire_id
from cxc_eccv.studies.asking.questions import QUESTIONS, Question, sheets_from_table, sheets_to_table
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.types.strict_json import COUNT, MAPPING, OR_NOTHING, TEXT, Each, Shape, decode_json
from cxc_eccv.writing import replaced_file, replaced_folder, write_json

__all__ = [
    "RESTORE",
    "Round",
    "add_answers",
    "read_round",
    "round_numbers",
    "seal",
    "unseal",
    "write_round",
]

FORMAT = 1

FACTS = b"cxc_eccv"
"""Metadata key of the facts of stored answers, in JSON."""

ROUNDS, ROUND, STORED = "rounds", "round.json", "answers.parquet"
TABLES = ("candidates", "known", "questions")

STORED_ANSWERS = ANSWERS.append(pa.field("origin", pa.string()))
"""Answers, each with the file and the place in it that it was imported from."""

RESTORE = "restore it, from version control for example"

PROPOSAL = {
    "strategy": TEXT,
    "options": MAPPING,
    "counts": Each(COUNT),
    "models": Each({"run": MAPPING, "similarity": OR_NOTHING}),
}
SAID_OF_ROUND = {
    "project": TEXT,
    "round": COUNT,
    "request": OR_NOTHING,
    "questionnaire": TEXT,
    "files": {f"{name}.parquet": TEXT for name in TABLES},
    "proposal": PROPOSAL,
}
"""What round.json says."""

KEY = ("sheet", "worker", "pair_id")
"""What there is one answer of."""


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What was proposed at once, and what people said of it."""

    number: int  # from 1 on
    folder: Path
    facts: Mapping[str, Any]  # the content of round.json: the request, what the strategy says of it, and hashes
    candidates: pa.Table  # of CANDIDATES
    known: pa.Table  # of CANDIDATES
    sheets: list[list[Question]]  # numbered from 0
    answers: pa.Table  # sheets numbered as above; no row before an import

    @property
    def open_sheets(self) -> list[int]:
        """Those that nobody has answered."""
        answered = set(self.answers["sheet"].to_pylist())
        return [number for number in range(len(self.sheets)) if number not in answered]


def round_numbers(folder: Path) -> list[int]:
    """Of the rounds of a project, whole or not, in order; none may be missing before others."""
    numbers = sorted(int(path.name) for path in (folder / ROUNDS).glob("[1-9]*") if path.name.isdecimal())
    for number in range(1, len(numbers) + 1):
        if number not in numbers:
            raise SourceMissing(f"{folder / ROUNDS / str(number)} is missing, and a later round is there; {RESTORE}")
    return numbers


def write_round(
    folder: Path,
    number: int,
    project: str,
    scheme: Scheme,
    tables: tuple[pa.Table, pa.Table, Sequence[Sequence[Question]]],
    **facts: Any,  # noqa: ANN401 - written as JSON
) -> None:
    """Write a round that is not there yet, by one rename; ``project`` is the checksum of ``annotation.json``."""
    candidates, known, sheets = tables
    with replaced_folder(folder / ROUNDS / str(number)) as place:
        for name, table in zip(TABLES, (candidates, known, sheets_to_table(sheets)), strict=True):
            write_parquet(table, place / f"{name}.parquet")
        questionnaire = questionnaire_id(sheets, scheme)
        content = {
            "project": project,
            "round": number,
            "sheets": len(sheets),
            "questionnaire": questionnaire,
            "files": {f"{name}.parquet": sha256_of(place / f"{name}.parquet") for name in TABLES},
        }
        write_json(place / ROUND, seal(content | facts))
        # From the beginning, so that answers that were lost are no round that nobody answered.
        _store(place / STORED, [], questionnaire)


def read_round(folder: Path, number: int, project: str, scheme: Scheme) -> Round:
    """A round with all that was answered, every file of it checked."""
    place = folder / ROUNDS / str(number)
    for path in (place / ROUND, place / STORED, *(place / f"{name}.parquet" for name in TABLES)):
        if not path.is_file():
            raise SourceMissing(f"{path} is missing; {RESTORE}")
    facts = unseal(place / ROUND, SAID_OF_ROUND)
    if (facts["project"], facts["round"]) != (project, number):
        there = f"round {facts['round']}" + (" of another project" if facts["project"] != project else "")
        raise MalformedSource(place / ROUND, "", there, f"round {number} of this one; {RESTORE}")
    for name, expected in facts["files"].items():
        if sha256_of(place / name) != expected:
            raise MalformedSource(place / name, "", "a table that was changed", f"the one that was written; {RESTORE}")
    schemas = (CANDIDATES, CANDIDATES, QUESTIONS)
    candidates, known, questions = (
        _read_table(place / f"{name}.parquet", schema) for name, schema in zip(TABLES, schemas, strict=True)
    )
    sheets = sheets_from_table(questions)
    if questionnaire_id(sheets, scheme) != facts["questionnaire"]:
        there = shown(facts["questionnaire"])
        raise MalformedSource(place / ROUND, "questionnaire", there, "that of its questions, as this version asks them")
    answers = _read_stored(place / STORED, facts["questionnaire"]).select(ANSWERS.names)
    _check_answers(place / STORED, answers, sheets, scheme)
    return Round(number, place, facts, candidates, known, sheets, answers)


def _read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """A table without nulls, but that a strategy may have no priority."""
    table = read_table(path, "a table of this round")
    if not table.schema.equals(schema) or any(table[name].null_count for name in schema.names if name != "priority"):
        raise MalformedSource(path, "", "other columns, or nulls", f"what was written; {RESTORE}")
    return table


def _check_answers(path: Path, answers: pa.Table, sheets: Sequence[Sequence[Question]], scheme: Scheme) -> None:
    """Stored answers are to questions that were asked, as they could be given, and one of a worker to each."""
    asked = {(number, question.pair_id): question for number, sheet in enumerate(sheets) for question in sheet}
    seen = set()
    for row, answer in enumerate(answers.to_pylist()):
        key = (answer["sheet"], answer["pair_id"], answer["worker"])
        question = asked.get(key[:2])
        try:
            value = decode_json(answer["answer"])
            gain = scheme.gain_of(value)
            scheme.check_details(value, decode_json(answer["details"]))
        except (ValueError, TypeError, AttributeError, InvalidOption):  # a null is no text
            question = None
        if not (
            question is not None
            and key not in seen
            and isinstance(answer["worker"], str)
            and isinstance(answer["remark"], str)
            and (question.image_id, question.caption_id, question.role, gain, scheme.is_positive(gain))
            == tuple(answer[name] for name in ("image_id", "caption_id", "role", "gain", "positive"))
        ):
            raise MalformedSource(path, f"row {row}", "what is no answer to a question of this round", RESTORE)
        seen.add(key)


def add_answers(asked: Round, scheme: Scheme, files: Iterable[Path], form: str) -> None:
    """Store the answers in files beside those that are there, by one rename.

    The files may stand in any order, and one may have what another or an earlier import has. Who said the same again
    may have taken longer: the first time counts.
    """
    stored = _read_stored(asked.folder / STORED, asked.facts["questionnaire"])
    answers = {tuple(row[name] for name in KEY): row for row in stored.to_pylist()}
    for file in files:
        new = read_answers([file], asked.sheets, scheme, form)
        places = {tuple(map(record.get, KEY)): where for where, record in formats()[form].read(file, scheme)}
        for row in new.to_pylist():
            key = tuple(row[name] for name in KEY)
            before = answers.setdefault(key, row | {"origin": f"{file.name}, {places[key]}"})
            if any(before[name] != row[name] for name in ("answer", "details", "remark")):
                raise MalformedSource(
                    file,
                    places[key],
                    f"another answer of {shown(row['worker'])} about {row['pair_id']} than the one from "
                    f"{before['origin']}",
                    "one answer of a worker to a question: remove one of the two, or undo the import of the other",
                )
    if len(answers) > stored.num_rows:
        places_of = {
            (number, question.pair_id): place
            for number, sheet in enumerate(asked.sheets)
            for place, question in enumerate(sheet)
        }
        rows = sorted(
            answers.values(),
            key=lambda row: (row["sheet"], row["worker"], places_of[row["sheet"], row["pair_id"]]),
        )
        _store(asked.folder / STORED, rows, asked.facts["questionnaire"])


def _store(path: Path, rows: list[dict[str, Any]], questionnaire: str) -> None:
    table = pa.Table.from_pylist(rows, schema=STORED_ANSWERS)
    facts = seal({"questionnaire": questionnaire, "rows": _checksum(rows)})
    with replaced_file(path) as part:
        write_parquet(table.replace_schema_metadata({FACTS: json.dumps(facts, sort_keys=True)}), part)


def _read_stored(path: Path, questionnaire: str) -> pa.Table:
    """The answers imported so far, and where each came from."""
    expected = f"a table of answers, as import wrote it; {RESTORE}"
    table = read_table(path, expected)
    facts = _check_seal(path, parse_metadata(path, table, FACTS, expected))
    if facts.get("questionnaire") != questionnaire:
        raise MalformedSource(path, "", "answers to other questions", f"those of this round; {RESTORE}")
    if table.schema.remove_metadata() != STORED_ANSWERS or facts.get("rows") != _checksum(table.to_pylist()):
        raise MalformedSource(path, "", "answers that were changed after their import", f"what import wrote; {RESTORE}")
    return table.replace_schema_metadata()


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its schema, and a checksum that tells of changes; equal content gives equal bytes."""
    sealed = json.loads(json.dumps({"schema": FORMAT, **content}, allow_nan=False))
    return dict(json.loads(json.dumps({**sealed, "checksum": _checksum(sealed)}, sort_keys=True)))


def unseal(path: Path, shape: Shape) -> dict[str, Any]:
    """The content of a file that was sealed; one that was changed, or that another version wrote, is refused."""
    content = _check_seal(path, read_json(path))
    check_content(path, content, shape)
    return content


def _check_seal(path: Path, read: object) -> dict[str, Any]:
    content = require_keys(path, "", read, ("schema", "checksum"))
    if content["schema"] != FORMAT:
        raise MalformedSource(path, "schema", shown(content["schema"]), f"{FORMAT}, which this version reads")
    if content["checksum"] != _checksum({name: value for name, value in content.items() if name != "checksum"}):
        raise MalformedSource(path, "", "content that was changed after it was written", f"what was written; {RESTORE}")
    return content


def _checksum(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
