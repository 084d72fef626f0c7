"""load_run: any file of a model's results becomes a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.runs.checks import refuse_unreadable
from cxc_eccv.runs.embeddings import EmbeddingsRun, embeddings_of_arrays, load_embeddings
from cxc_eccv.runs.npz import read_npz
from cxc_eccv.runs.ranking_files import read_rankings_json, read_rankings_parquet, read_trec
from cxc_eccv.runs.rankings import RankedLists, RankingsRun
from cxc_eccv.runs.scores import ScoresRun, scores_of_arrays

__all__ = ["load_run"]

RANKINGS: dict[str, Callable[[Path, str | None], dict[str, RankedLists]]] = {
    ".json": read_rankings_json,
    ".parquet": read_rankings_parquet,
    ".trec": read_trec,
    ".run": read_trec,
    ".txt": read_trec,
}
FORMATS = (
    ".npz or .safetensors (embeddings), .npz (scores), .json, .parquet or .trec (rankings); pickled objects are never "
    "loaded"
)


def load_run(*paths: str | Path, direction: str | None = None) -> EmbeddingsRun | ScoresRun | RankingsRun:
    """Read and check a model's results, whichever form they have.

    ==============  ==============================================================================================
    embeddings      ``.npz``, ``.safetensors``: image_ids, image_embeddings, caption_ids, caption_embeddings
    scores          ``.npz``: image_ids (N,), caption_ids (M,), scores (N, M)
    rankings        ``.json``: {"i2t": {query id: [item ids]}, "t2i": {...}}, or one direction to a file
    rankings        ``.parquet``: query_id, direction, rank, item_id (and score), or query_id, direction, item_ids
    rankings        ``.trec``, ``.run``, ``.txt``: query Q0 item rank score tag, one direction to a file
    ==============  ==============================================================================================

    Args:
        *paths: one file, or several that hold a direction each.
        direction: of a rankings file that neither says it nor is named after it (``clip_i2t.trec`` is).

    Raises:
        MalformedRun: unreadable, cut short, of the wrong type or shape, not finite, with repeated ids. The message
            names file, place and remedy.
        InvalidOption: no file, several that are not rankings, or ``direction`` where the file says its own.

    Example:
        >>> import json, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "run.json"
        ...     _ = path.write_text(json.dumps({"t2i": {30: [5, 6]}}))
        ...     load_run(path).kind
        'rankings'
    """
    files = [Path(path) for path in paths]
    if not files:
        raise InvalidOption("load_run needs a file")
    for path in files:
        if path.suffix.lower() not in {".npz", ".safetensors", *RANKINGS}:
            raise MalformedRun(f"{path}: unknown format {path.suffix!r}; use {FORMATS}")
        refuse_unreadable(path)
    if all(path.suffix.lower() in RANKINGS for path in files):
        return _rankings(files, direction)
    if len(files) > 1:
        raise InvalidOption(f"{len(files)} files: only rankings may be spread over several, a direction to each")
    if direction is not None:
        raise InvalidOption(f"{files[0]}: a direction is for rankings; leave it out")
    return _vectors_or_scores(files[0])


def _rankings(files: list[Path], direction: str | None) -> RankingsRun:
    lists: dict[str, RankedLists] = {}
    for path in files:
        for name, found in RANKINGS[path.suffix.lower()](path, direction).items():
            if name in lists:
                where = f"{lists[name].place} and {found.place}"
                raise MalformedRun(f"{where}: give the rankings of {name} twice; keep one")
            lists[name] = found
    return RankingsRun(lists)


def _vectors_or_scores(path: Path) -> EmbeddingsRun | ScoresRun:
    if path.suffix.lower() == ".safetensors":
        return load_embeddings(path)
    arrays = read_npz(path)
    vectors = [name for name in arrays if name.endswith("_embeddings")]
    if "scores" not in arrays:
        if not vectors:
            raise MalformedRun(
                f"{path}: holds {sorted(arrays) or 'no array'}; needs image_ids with image_embeddings, caption_ids "
                "with caption_embeddings, or image_ids, caption_ids and scores"
            )
        return embeddings_of_arrays(path, arrays)
    if vectors:
        raise MalformedRun(f"{path}: holds both scores and {' and '.join(vectors)}; save them in two files")
    return scores_of_arrays(path, arrays)
