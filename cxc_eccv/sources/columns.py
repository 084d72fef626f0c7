"""Tables that users write, in CSV, JSON lines and Parquet: columns of whole numbers, labels and probabilities."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from cxc_eccv.errors import DataError, MalformedSource
from cxc_eccv.sources.reading import read_csv, read_json_lines, read_table, shown

TABLE_ENDINGS = (".parquet", ".csv", ".jsonl")
"""Endings of files with a table; ``.csv.gz`` and ``.jsonl.gz`` are read too."""


class Form(NamedTuple):
    """The values that a column may hold, and how they are written."""

    expected: str
    lowest: int
    highest: int
    types: tuple[type, ...]
    cell: re.Pattern[str]  # of CSV
    read: Callable[[str], int | float]


WHOLE_NUMBER = Form("a whole number", -(2**63), 2**63 - 1, (int,), re.compile(r"-?[0-9]{1,18}"), int)
PROBABILITY = Form(
    "a number from 0 to 1",
    0,
    1,
    (int, float),
    re.compile(r"(0|1)(\.[0-9]*)?|0?\.[0-9]+|[0-9](\.[0-9]+)?[eE]-[0-9]+"),
    float,
)
LABEL = Form(
    "1 or 0, true or false",
    0,
    1,
    (int, bool),
    re.compile(r"0|1|true|false", re.IGNORECASE),
    lambda cell: int(cell.lower() in ("1", "true")),
)

Forms = Mapping[str, Form]
"""Column to its form; every other column holds text."""


def read_columns(path: Path, what: str, forms: Forms, *needed: str) -> pa.Table:
    """The table in a file of a user, with a row per line or object; its names of columns are folded.

    Args:
        path: file that ends in one of :data:`TABLE_ENDINGS`.
        what: what its rows are, for errors.
        forms: forms of the columns that hold numbers, wherever the table has them.
        needed: columns that it must have.
    """
    if find_ending(path) not in TABLE_ENDINGS:
        raise DataError(f"{path}: {what} are read from {', '.join(TABLE_ENDINGS)}, with {' and '.join(needed)}")
    try:
        table = _read(path, what, forms)
    except OSError as error:
        raise DataError(f"{path}: no readable table of {what}: {error}") from None
    for name in needed:
        if name not in table.column_names:
            message = f"{path}: no column {name} among {', '.join(table.column_names)}"
            raise DataError(message + _advise_on_header(path, table.column_names, needed))
    return table


IS_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
OTHER_SEPARATOR = re.compile(r"[;\t|]")


def _advise_on_header(path: Path, names: Sequence[str], needed: Sequence[str]) -> str:
    """What to do about a CSV file that has another separator, or no names of columns; empty for other faults."""
    if find_ending(path) != ".csv":
        return ""
    advice = ""
    cells = list(names)
    if len(names) == 1 and OTHER_SEPARATOR.search(names[0]):
        advice += " Separate the columns by commas."
        cells = OTHER_SEPARATOR.split(names[0])
    if any(IS_NUMBER.fullmatch(cell.strip()) for cell in cells):
        advice += f" The first line must name the columns: {','.join(needed)}."
    return f".{advice}" if advice else ""


def find_ending(path: Path) -> str:
    """The ending of a table's name, in lower case: ``.csv`` also of ``.csv.gz``, as gzipped text is read too."""
    ending = path.suffix.lower()
    if path.suffix == ".gz":
        packed = Path(path.stem).suffix.lower()
        ending = packed if packed in (".csv", ".jsonl") else ending
    return ending


def name_row(path: Path, row: int) -> str:
    """Where a row of such a table is, for errors."""
    ending = find_ending(path)
    if ending == ".parquet":
        return f"row {row}"
    if ending == ".csv":
        return f"line {row + 2}"
    lines = [line for line, _ in read_json_lines(path)]
    return f"line {lines[row]}"


@lru_cache(maxsize=1024)  # JSON lines repeat the names
def fold_name(name: str) -> str:
    r"""The name of a column as it is compared: in lower case, without blanks around it and characters of no width.

    Example:
        >>> fold_name("\ufeffPositive "), fold_name("image_id\u200b")
        ('positive', 'image_id')
    """
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return visible.strip().casefold()


def fold_names(path: Path, names: Sequence[str]) -> list[str]:
    """The names of a table's columns as they are compared; refuse two that are then the same."""
    first: dict[str, str] = {}
    for name in names:
        folded = fold_name(name)
        if folded in first:
            raise MalformedSource(
                path, "", f"the columns {shown(first[folded])} and {shown(name)}", "names that differ in their letters"
            )
        first[folded] = name
    return list(first)


WORDS = """
yes yep yeah no nope not non none true false match matches matched matching mismatch mismatched mismatches unmatched
nonmatch nomatch positive positives negative negatives pos neg relevant relevance irrelevant nonrelevant related
unrelated correct incorrect right wrong good bad ok okay valid invalid accept accepted reject rejected pass passed fail
failed agree agreed disagree disagreed similar similarity dissimilar same different identical equal unequal equivalent
paraphrase duplicate entail entails entailed entailment neutral contradict contradicts contradiction hit miss tick
ticked checked does doesn do don unsure maybe uncertain unknown undecided skip skipped null nan na inf infinity perfect
excellent fair poor high medium low exact exactly full fully partial partially mostly somewhat slightly barely very
strong strongly weak weakly highly more less is isn are it this that an the of out at all to star stars point points
label labels verdict verdicts judgment judgments judgement judgements rating ratings rated score scores grade grades
gain gains probability probabilities prob confidence degree level value weight vote votes answer answers annotation
annotations class target truth gold predicted prediction
ja nein oui si sí nao não sim да нет vrai faux wahr falsch richtig verdadero falso verdadeiro はい いいえ 匹配 不匹配
相关 不相关 正确 错误
"""

VERDICT_WORDS = frozenset(WORDS.split())
"""Words of verdicts, and the small words between them."""

NUMBER_OR_CHARACTER = re.compile(r"\d+e?\d*|.")
"""A number, or a single character."""


def is_verdict(text: str) -> bool:
    """Whether all words of a text are numbers, single characters or words of verdicts; so it may say what matches.

    Example:
        >>> [is_verdict(text) for text in ("100% YES", "no match", "3/5", "x", "A dog runs.", "anna")]
        [True, True, True, True, False, False]
    """
    words = re.findall(r"[^\W_]+", text.casefold())
    return all(word in VERDICT_WORDS or NUMBER_OR_CHARACTER.fullmatch(word) is not None for word in words)


def refuse_misnamed(path: Path, table: pa.Table, known: Collection[str], lacking: str, expected: str) -> None:
    """Refuse a table without an optional column if one of another name may hold its values.

    Whatever is not ``known`` must be of texts that are no verdicts, such as captions or the names of annotators.

    Args:
        path: the file, for the error.
        table: its columns, with folded names.
        known: columns whose meaning is known.
        lacking: the columns that it lacks, for the error.
        expected: which column should hold what, for the error.
    """
    others_first = sorted(table.column_names, key=lambda name: not (name and is_verdict(name)))
    for name in others_first:
        if name in known:
            continue
        values = table[name].to_pylist()
        texts = [value for value in values if isinstance(value, str) and value.strip()]
        others = [value for value in values if value is not None and not isinstance(value, str)]
        marks = others or [text for text in texts if is_verdict(text)]
        if marks or is_verdict(name) or not texts:
            example = shown((marks or texts)[0]) if texts or marks else "no value"
            raise MalformedSource(
                path,
                f"column {shown(name)}",
                f"{example} in it, and no column {lacking}",
                f"{expected}. Rename this column if it holds them; remove it if it does not"
                f"{'' if name else ' (pandas writes row numbers without index=False)'}",
            )


def _read(path: Path, what: str, forms: Forms) -> pa.Table:
    ending = find_ending(path)
    if ending == ".parquet":
        table = read_table(path, f"a table of {what}")
        table = table.rename_columns(fold_names(path, table.column_names))
        for name in forms.keys() & set(table.column_names):
            _read_numbers(path, name, table[name].to_pylist(), forms[name])
        return table
    if ending == ".csv":
        columns = read_csv(path).to_pydict()
    else:  # a column that a line lacks is null there
        rows = [row for _, row in read_json_lines(path)]
        columns = {name: [] for name in chain.from_iterable(rows)}
        for row in rows:
            for name, values in columns.items():
                values.append(row.get(name))
    arrays = {}
    for name, values in zip(fold_names(path, list(columns)), columns.values(), strict=True):
        try:
            arrays[name] = pa.array(_read_numbers(path, name, values, forms[name]) if name in forms else values)
        except (pa.ArrowException, OverflowError) as error:
            reason = str(error).partition("\n")[0]
            raise MalformedSource(path, f"column {shown(name)}", reason, "values of one type in all lines") from None
    return pa.table(arrays)


def _read_numbers(path: Path, name: str, values: Sequence[object], form: Form) -> list[object]:
    """The values, cells of CSV as numbers; refuse the first that has not the form."""
    numbers = []
    is_csv = find_ending(path) == ".csv"
    for row, value in enumerate(values):
        is_written = is_csv and form.cell.fullmatch(str(value))
        number = form.read(str(value)) if is_written else value
        if type(number) not in form.types or not form.lowest <= number <= form.highest:  # type: ignore[operator]
            raise MalformedSource(path, f"{name_row(path, row)}, column {name!r}", shown(value), form.expected)
        numbers.append(number)
    return numbers
