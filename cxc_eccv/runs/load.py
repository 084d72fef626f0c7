"""load_run: reads any file of a model's results; rankings are JSON, Parquet or TREC runs."""

from __future__ import annotations

import gzip
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cxc_eccv.damage import refuse_damaged_run
from cxc_eccv.errors import InvalidOption, MalformedRun, UnknownName
from cxc_eccv.hashing import hash_file
from cxc_eccv.parquet import read_parquet
from cxc_eccv.runs.embeddings import make_embeddings, read_arrays
from cxc_eccv.runs.rankings import RankedLists, RankingsRun, make_lists, narrow_ids
from cxc_eccv.runs.report_folder import find_files
from cxc_eccv.runs.run import CORPUS, MODEL, EmbeddingsRun, parse_json, refuse_unreadable
from cxc_eccv.runs.scores import DirectionScoresRun, ScoresRun, read_scores
from cxc_eccv.types import DIRECTIONS, FloatArray, IntArray
from cxc_eccv.types.ids import shorten

Run = EmbeddingsRun | ScoresRun | DirectionScoresRun | RankingsRun
"""A model's results."""

RUN_FORMATS = (
    ".npz or .safetensors (embeddings), .npz (scores), .json, .json.gz, .parquet or .trec (rankings); pickled objects "
    "are never loaded"
)

GZIP = ".gz"
TEXT_FORMATS = (".json", ".trec", ".run", ".txt")
"""Formats that are read gzipped too."""

JSON_FORMS = '{"i2t": {query id: [item ids]}, "t2i": {...}}, or {query id: {item id: score}} in place of the lists'

DIRECTION_IN_NAME = re.compile(rf"(?<![a-z0-9])({'|'.join(DIRECTIONS)})(?![a-z0-9])")

PARQUET_FORMS = "query_id, direction, rank, item_id or query_id, direction, item_ids"

READ_COLUMNS = ("query_id", "direction", "rank", "item_id", "item_ids")

TREC_RECORD = [("query", "i8"), ("q0", "U1"), ("item", "i8"), ("rank", "i8"), ("score", "f8"), ("tag", "U1")]
TREC_LINE = re.compile(
    r"\s*[-+]?\d{1,19}\s+\S+\s+[-+]?\d{1,19}\s+[-+]?\d{1,19}\s+[-+]?(nan|inf\w*|[.\d]+(e[-+]?\d+)?)\s+\S+\s*",
    re.IGNORECASE,
)
TREC_FORM = "query id, Q0, item id, rank, score and tag; ids and rank are whole numbers of 64 bits, the score a number"


def load_run(*paths: str | Path, direction: str | Sequence[str] | None = None) -> Run:
    """Read and check a model's results: embeddings, scores or rankings.

    ==============  ==============================================================================================
    embeddings      ``.npz``, ``.safetensors``: image_ids, image_embeddings, caption_ids, caption_embeddings
    scores          ``.npz``: image_ids (N,), caption_ids (M,), scores (N, M)
    scores          ``.npz``: image_ids, caption_ids, scores_i2t (N, M), scores_t2i (M, N), one of them or both
    rankings        ``.json``, ``.json.gz``: {"i2t": {query id: [item ids]}, "t2i": {...}}, or one direction to a file
    scored items    the same files with {query id: {item id: score}}, the higher the better
    rankings        ``.parquet``: query_id, direction, rank, item_id (and score), or query_id, direction, item_ids
    rankings        ``.trec``, ``.run``, ``.txt``: query Q0 item rank score tag, one direction to a file
    ==============  ==============================================================================================

    Pairs that were not scored are named by a mask (``scored``, or ``scored_i2t`` and ``scored_t2i``, True for scored
    pairs) or by ``unscored``, the number in their place; such scores become cut rankings of the scored pairs.

    An optional ``model`` names the model: a text in ``.npz``, metadata in ``.safetensors`` and ``.parquet``.

    Args:
        *paths: one file, or several with one direction each. The folder of a report stands for the model's file in it.
        direction: of rankings files that neither say it nor are named after it (``clip_i2t.trec`` is); of several files
            one for all, or one for each.

    Raises:
        NoSuchFile: there is no such file.
        MalformedRun: a file is unreadable or cut short, of the wrong type or shape, has values that are not finite, or
            repeated ids. The message names file, place and remedy.
        InvalidOption: there is no file, or several that are not rankings; or ``direction`` is given although the file
            names its direction.

    Example:
        >>> import json, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "run.json"
        ...     _ = path.write_text(json.dumps({"t2i": {30: [5, 6]}}))
        ...     load_run(path).kind
        'rankings'
    """
    files = list(chain.from_iterable(map(find_files, paths)))
    if not files:
        raise InvalidOption("load_run needs a file")
    for path in files:
        refuse_unreadable(path)
        if _find_format(path) not in {".npz", ".safetensors", *RANKING_READERS}:
            raise MalformedRun(f"{path}: unknown format {path.suffix!r}; use {RUN_FORMATS}")
    if all(map(_holds_rankings, files)):
        return _load_rankings(files, direction)
    if len(files) > 1:
        raise InvalidOption(f"got {len(files)} files, but only rankings may have several, one direction each")
    if direction is not None:
        raise InvalidOption(f"{files[0]}: a direction is for rankings; leave it out")
    return _load_arrays(files[0])


def _find_format(path: Path) -> str:
    """The suffix of a file, or of the text that a gzipped file holds."""
    suffix = path.suffix.lower()
    packed = Path(path.stem).suffix.lower()
    return packed if suffix == GZIP and packed in TEXT_FORMATS else suffix


def _holds_rankings(path: Path) -> bool:
    return _find_format(path) in RANKING_READERS


def name_file(path: Path) -> str:
    """The name of a run's file without its suffixes."""
    return Path(path.stem).stem if path.suffix.lower() == GZIP else path.stem


def group_files(
    files: Sequence[Path], directions: Sequence[str] = ()
) -> list[tuple[str, tuple[tuple[Path, ...], tuple[str, ...]]]]:
    """The files of each model, with a name and the given directions.

    Embeddings and scores are a model each. Rankings of different directions are one model. Where a direction occurs
    twice, the rankings are of several models, and the files of one model are in one folder and have the same name but
    for the direction.
    """
    paths = list(chain.from_iterable(map(find_files, files)))
    rankings = list(filter(_holds_rankings, paths))
    if directions and not rankings:
        raise InvalidOption(f"{paths[0]}: a direction is for rankings; leave it out")
    stated: dict[Path, str | None] = {}
    if directions:
        stated = dict(zip(rankings, _give_each(directions, rankings), strict=True))
    has_several_models = _repeats_direction(rankings, stated)
    groups: dict[tuple[int, Path], list[Path]] = {}
    for place, path in enumerate(paths, start=1):
        if path not in rankings:
            key = (place, path)
        elif has_several_models:
            key = (0, path.with_name(_strip_direction(path)))
        else:
            key = (0, Path())
        groups.setdefault(key, []).append(path)
    models = []
    for group in groups.values():
        of_group = tuple(filter(None, map(stated.get, group)))
        models.append((_strip_direction(group[0]), (tuple(group), of_group)))
    return models


def _repeats_direction(rankings: Sequence[Path], stated: Mapping[Path, str | None]) -> bool:
    """Whether two files of rankings, or one file twice, have rankings of one direction."""
    if len(rankings) < 2:
        return False
    directions: list[str] = []
    for path in rankings:
        directions += _find_directions(path, stated.get(path))
    return len(set(directions)) < len(directions)


def _strip_direction(path: Path) -> str:
    """The name of a rankings file without its direction, or that of another file."""
    name = name_file(path)
    if _holds_rankings(path):
        return DIRECTION_IN_NAME.sub("", name.lower()).strip("_-. ") or name
    return name


def _find_directions(path: Path, direction: str | None) -> list[str]:
    """The directions in a rankings file; TREC runs have only one, which needs no reading."""
    refuse_unreadable(path)
    read = RANKING_READERS[_find_format(path)]
    return [_find_direction(path, direction)] if read is _read_trec else [*read(path, direction)]


def _give_each(directions: Sequence[str | None], files: Sequence[Path]) -> Sequence[str | None]:
    """A direction for each file, from one for all or one for each."""
    if len(directions) not in (1, len(files)):
        raise InvalidOption(f"{len(files)} files and {len(directions)} directions: give one, or one for each file")
    return directions if len(directions) > 1 else [*directions] * len(files)


def _load_rankings(files: list[Path], direction: str | Sequence[str] | None) -> RankingsRun:
    lists: dict[str, RankedLists] = {}
    directions = [direction] if direction is None or isinstance(direction, str) else direction
    for path, of_path in zip(files, _give_each(directions, files), strict=True):
        for name, rankings in RANKING_READERS[_find_format(path)](path, of_path).items():
            if name in lists:
                where = f"{lists[name].place} and {rankings.place}"
                raise MalformedRun(f"{where}: both hold the rankings of {name}; keep one")
            lists[name] = rankings
    return RankingsRun(lists, _find_shared_text(files, MODEL), _find_shared_text(files, CORPUS))


def _find_shared_text(files: Sequence[Path], entry: str) -> str | None:
    """The text of an entry in the metadata of Parquet files, which all that have it share; None if none has it."""
    texts = {_find_text(path, entry) for path in files if path.suffix.lower() == ".parquet"} - {None}
    if len(texts) > 1:
        names = " and ".join(sorted(map(str, texts)))
        raise MalformedRun(f"{files[0]} and others: are of {names}; give files of one {entry}")
    return next(iter(texts), None)


def _find_text(path: Path, entry: str) -> str | None:
    """The text of an entry in the metadata of a Parquet file, or None."""
    with refuse_damaged_run(path):
        return ((pq.read_schema(path).metadata or {}).get(entry.encode()) or b"").decode() or None


def _load_arrays(path: Path) -> Run:
    arrays, metadata = read_arrays(path)
    vectors = [name for name in arrays if name.endswith("_embeddings")]
    scores = [name for name in ("scores", "scores_i2t", "scores_t2i") if name in arrays]
    if path.suffix.lower() != ".npz" or (vectors and not scores):
        return make_embeddings(path, arrays, metadata)
    if not scores:
        raise MalformedRun(
            f"{path}: holds {sorted(arrays) or 'no array'}; needs image_ids with image_embeddings, caption_ids with "
            "caption_embeddings, or image_ids, caption_ids and scores, or scores_i2t and scores_t2i"
        )
    if vectors:
        raise MalformedRun(f"{path}: holds both {scores[0]} and {' and '.join(vectors)}; save them in two files")
    return read_scores(path, arrays)


def _read_json(path: Path, direction: str | None) -> dict[str, RankedLists]:
    """Direction to its rankings; ids that are JSON keys are strings of digits."""
    content = parse_json(path, _read_text(path))
    if not isinstance(content, dict) or not content:
        kind = "nothing" if content == {} else f"a {type(content).__name__}"
        raise MalformedRun(f"{path}: holds {kind}; need {JSON_FORMS}")
    if any(key.isdecimal() for key in content):
        content = {_find_direction(path, direction): content}
    else:
        refuse_unknown_directions(content, str(path))
        if direction is not None:
            raise InvalidOption(f"{path}: names its directions ({', '.join(content)}); leave out direction")
    return make_lists(content, path=path, sha256=hash_file(path))


def refuse_unknown_directions(content: Mapping[Any, object], where: str) -> None:
    """Raise MalformedRun for a key that is no direction, where no key is a query id."""
    unknown = [key for key in content if key not in DIRECTIONS]
    if unknown:
        raise MalformedRun(
            f"{where}: key {shorten(unknown[0])} is neither a direction ({', '.join(DIRECTIONS)}) nor a query id; use "
            "the COCO ids of images and captions, which are the last number in the names of COCO's files"
        )


def _read_text(path: Path) -> str:
    with refuse_damaged_run(path):
        if path.suffix.lower() == GZIP:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                text = file.read()
        else:
            text = path.read_text(encoding="utf-8")
    if not text.strip():
        raise MalformedRun(f"{path}: is empty; save it again")
    return text


def _read_parquet(path: Path, direction: str | None) -> dict[str, RankedLists]:
    """Direction to its rankings, from a row per query and item, or a row per query with a list of items."""
    table = _read_table(path)
    is_nested = "item_ids" in table.column_names
    read_rows = _read_nested if is_nested else _read_long
    _refuse_unread_scores(path, table, "scores" if is_nested else "score")
    sha256 = hash_file(path)
    if "direction" not in table.column_names:
        only = _find_direction(path, direction)
        return {only: read_rows(table, f"{path}, {only}", path, sha256)}
    if direction is not None:
        raise InvalidOption(f"{path}: has a column of directions; leave out direction")
    names = _pick(path, table, "direction", lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind))
    directions = pc.unique(names).to_pylist()
    for name in directions:
        if name not in DIRECTIONS:
            raise UnknownName(f"direction in {path}, column direction:", name, DIRECTIONS)
    lists: dict[str, RankedLists] = {}
    codes = pc.index_in(names, pa.array(directions)).to_numpy()
    in_order = bool(np.all(codes[1:] >= codes[:-1]))  # then a slice will do, which copies nothing
    for code, name in enumerate(directions):
        place = f"{path}, {name}"
        first, stop = np.searchsorted(codes, [code, code + 1]).tolist()
        rows = table.slice(first, stop - first) if in_order else table.filter(pc.equal(names, name))
        lists[name] = read_rows(rows, place, path, sha256)
    return lists


def _read_table(path: Path) -> pa.Table:
    with refuse_damaged_run(path):
        table = read_parquet(path)
    if not table.num_rows:
        raise MalformedRun(f"{path}: has no rows; it needs the columns {PARQUET_FORMS}")
    return table


def _refuse_unread_scores(path: Path, table: pa.Table, name: str) -> None:
    """Refuse floating-point numbers beside a lacking column of scores: ties of scores change ranks."""
    if name in table.column_names:
        return
    for field in table.schema:
        if field.name in READ_COLUMNS:
            continue
        kind = field.type.value_type if _is_list(field.type) else field.type
        if pa.types.is_floating(kind):
            raise MalformedRun(
                f"{path}, column {field.name}: holds floating-point numbers, and there is no column {name}, which "
                "shows the ties of a ranking. Rename this column if it holds the scores; remove it if it does not."
            )


def _pick(path: str | Path, table: pa.Table, name: str, fits: Any, wanted: str = "text") -> pa.Array:  # noqa: ANN401
    if table.column_names.count(name) != 1:
        raise MalformedRun(f"{path}: has the columns {', '.join(table.column_names)}; needs {PARQUET_FORMS}")
    column = table[name].combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not fits(column.type):
        raise MalformedRun(f"{path}, column {name}: has type {column.type}, expected {wanted}")
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise MalformedRun(f"{path}, column {name}: has {column.null_count} nulls, the first in row {row}")
    return column


def _take_ids(place: str, table: pa.Table, name: str) -> NDArray[Any]:
    column = _pick(place, table, name, pa.types.is_integer, "whole numbers, the COCO ids")
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64 and values.max() > np.iinfo(np.int64).max:
        raise MalformedRun(f"{place}, column {name}: id {values.max()} does not fit int64; use the COCO ids")
    return values.astype(np.int64, copy=False)


def _read_long(table: pa.Table, place: str, path: Path, sha256: str) -> RankedLists:
    queries = _take_ids(place, table, "query_id")
    items = _take_ids(place, table, "item_id")
    ranks = _take_ids(place, table, "rank")
    scores = None
    if "score" in table.column_names:
        score = _pick(place, table, "score", pa.types.is_floating, "floating-point numbers")
        scores = score.to_numpy(zero_copy_only=False).astype(np.float64)
    return _group_rows(queries, items, ranks, scores, place=place, path=path, sha256=sha256)


def _read_nested(table: pa.Table, place: str, path: Path, sha256: str) -> RankedLists:
    lists = _pick(place, table, "item_ids", _is_list, "lists of whole numbers, the COCO ids")
    items = pa.table({"item_ids": pc.list_flatten(lists)})
    indptr = np.append(0, np.cumsum(pc.list_value_length(lists).to_numpy()))
    scores = None
    if "scores" in table.column_names:
        column = _pick(place, table, "scores", _is_list, "lists of floating-point numbers")
        values = pa.table({"scores": pc.list_flatten(column)})
        scores = _pick(place, values, "scores", pa.types.is_floating, "lists of floating-point numbers").to_numpy()
        if not np.array_equal(pc.list_value_length(column).to_numpy(), np.diff(indptr)):
            raise MalformedRun(f"{place}, column scores: needs one score for each of item_ids; save them together")
    return RankedLists(
        query_ids=_take_ids(place, table, "query_id"),
        indptr=indptr.astype(np.int64),
        items=narrow_ids(_take_ids(place, items, "item_ids")),
        scores=scores,
        path=path,
        sha256=sha256,
        place=place,
        may_be_empty=True,
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _read_trec(path: Path, direction: str | None) -> dict[str, RankedLists]:
    """The direction of a TREC run; ranks give the order, and scores must not contradict it."""
    name = _find_direction(path, direction)
    text = _read_text(path)
    try:
        with warnings.catch_warnings(action="error"):  # NumPy only warns of 1.0 for a whole number
            rows = np.loadtxt(io.StringIO(text), dtype=TREC_RECORD, comments=None, ndmin=1)
    except (ValueError, OverflowError, DeprecationWarning):
        numbered = enumerate(text.splitlines(), start=1)
        bad = ((number, line) for number, line in numbered if line.strip() and not TREC_LINE.fullmatch(line))
        number, line = next(bad, (1, "not readable"))
        raise MalformedRun(f"{path}, line {number}: is {shorten(line)}; a line has {TREC_FORM}") from None
    rankings = _group_rows(
        np.ascontiguousarray(rows["query"]),
        np.ascontiguousarray(rows["item"]),
        np.ascontiguousarray(rows["rank"]),
        np.ascontiguousarray(rows["score"]),
        place=f"{path}, {name}",
        path=path,
        sha256=hash_file(path),
    )
    return {name: rankings}


def _group_rows(
    queries: IntArray,
    items: IntArray,
    ranks: IntArray,
    scores: FloatArray | None,
    *,
    place: str,
    path: Path,
    sha256: str,
) -> RankedLists:
    """The lists of (P,) rows in any order, with ascending queries; ranks start at 1 or 0 and have no gaps."""
    later = queries[1:] > queries[:-1]
    if not np.all(later | ((queries[1:] == queries[:-1]) & (ranks[1:] > ranks[:-1]))):
        order = np.lexsort((ranks, queries))
        queries = queries[order]
        items = items[order]
        ranks = ranks[order]
        scores = None if scores is None else scores[order]
    starts = np.flatnonzero(np.append(True, queries[1:] != queries[:-1]))
    indptr = np.append(starts, queries.size)
    first = np.repeat(ranks[indptr[:-1]], np.diff(indptr))
    expected = np.arange(ranks.size) - np.repeat(indptr[:-1], np.diff(indptr)) + first
    bad = np.flatnonzero((ranks != expected) | ~np.isin(first, (0, 1)))
    if bad.size:
        begin = ranks[queries == queries[bad[0]]][:5].tolist()
        raise MalformedRun(
            f"{place}: the ranks of query {queries[bad[0]]} begin {begin}; need 1, 2, 3 and so on, each once. "
            "Number the items of each query again, as a missing or repeated rank leaves the order undefined."
        )
    return RankedLists(
        query_ids=queries[starts],
        indptr=indptr,
        items=narrow_ids(items),
        scores=scores,
        path=path,
        sha256=sha256,
        place=place,
    )


def _find_direction(path: Path, direction: str | None) -> str:
    if direction is not None:
        if direction not in DIRECTIONS:
            raise UnknownName("direction", direction, DIRECTIONS)
        return direction
    name = name_file(path)
    named = set(DIRECTION_IN_NAME.findall(name.lower()))
    if len(named) != 1:
        raise MalformedRun(
            f"{path}: does not say which direction its rankings have. Name the file after it, as in "
            f"{name}_i2t{path.name.removeprefix(name)}, or give the direction: evaluate --direction i2t, "
            "load_run(..., direction='i2t')"
        )
    return str(named.pop())


RANKING_READERS: dict[str, Callable[[Path, str | None], dict[str, RankedLists]]] = {
    ".json": _read_json,
    ".parquet": _read_parquet,
    ".trec": _read_trec,
    ".run": _read_trec,
    ".txt": _read_trec,
}
