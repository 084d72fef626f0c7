"""find_run: the run that a caller of evaluate means by a Run, a file, dicts of rankings or scores, or arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cxc_eccv.errors import InvalidOption, MalformedRun, UnknownName
from cxc_eccv.runs.embeddings import ARRAY_PAIRS, make_embeddings
from cxc_eccv.runs.load import Run, load_run, refuse_unknown_directions
from cxc_eccv.runs.rankings import RANKING_FORMS, RankingDict, RankingsRun, make_lists
from cxc_eccv.runs.scores import DIRECTION_ARRAYS, PLAIN_ARRAYS, read_scores
from cxc_eccv.types import DIRECTIONS
from cxc_eccv.types.ids import on_host, to_array

ARRAY_NAMES = {*PLAIN_ARRAYS, *DIRECTION_ARRAYS, *ARRAY_PAIRS["images"], *ARRAY_PAIRS["captions"]}
"""Keys of a dict of arrays, as in a file of embeddings or scores."""

GivenRun = Run | str | Path | Mapping[Any, Any]
"""What stands for a run: a file's path, a dict of rankings, of directions or of arrays."""

RUN_FORMS = (
    "a file, dicts of rankings or scores (i2t={...}, t2i={...}), or a dict of arrays with their ids ('image_ids', "
    "'image_embeddings', 'caption_ids', 'caption_embeddings')"
)


def find_run(
    run: GivenRun | None = None,
    *,
    i2t: RankingDict | None = None,
    t2i: RankingDict | None = None,
    direction: str | None = None,
) -> Run:
    """The run in one of the forms that :func:`cxc_eccv.evaluate` takes; something else stays as it is.

    Example:
        >>> find_run(t2i={7: {5: 0.25, 4: 0.75}}).lists["t2i"].items.tolist()
        [4, 5]
    """
    if i2t is not None or t2i is not None:
        if run is not None:
            raise InvalidOption("got a run, and i2t or t2i; give either a run or these dicts")
        if direction is not None:
            raise InvalidOption(f"direction={direction!r}: i2t and t2i name their directions; leave it out")
        _refuse_arrays(i2t=i2t, t2i=t2i)
        return RankingsRun.from_dicts(i2t, t2i)
    if run is None:
        raise InvalidOption(f"nothing to evaluate: give {RUN_FORMS}")
    if isinstance(run, str | Path):
        return load_run(run, direction=direction)
    if isinstance(run, Mapping):
        return _make_run(run, direction)
    if direction is not None:
        raise InvalidOption(f"direction={direction!r} is for a dict or a file of one direction; leave it out")
    return run


def _refuse_arrays(**rankings: object) -> None:
    """Raise MalformedRun if an array without ids stands for rankings."""
    for name, given in rankings.items():
        if hasattr(given, "shape"):
            raise MalformedRun(
                f"{name} is an array of shape {tuple(given.shape)} without ids; for scores give evaluate("
                f"{{'image_ids': ..., 'caption_ids': ..., 'scores_{name}': array}}), for rankings a dict of query id "
                "to ranked item ids"
            )


def _make_run(given: Mapping[Any, Any], direction: str | None) -> Run:
    """The run in a dict: of arrays, of directions, or of the queries of one direction."""
    if not given:
        raise MalformedRun(f"the run is an empty dict; give {RANKING_FORMS}")
    if not ARRAY_NAMES.isdisjoint(given):
        if direction is not None:
            raise InvalidOption(f"direction={direction!r} is for rankings; leave it out")
        return _make_run_of_arrays(given)
    names = [key for key in given if isinstance(key, str) and not key.isdecimal()]
    if names:
        refuse_unknown_directions(given, "the run")
        if direction is not None:
            raise InvalidOption(f"the run names its directions ({', '.join(names)}); leave out direction")
        return RankingsRun(make_lists(given))
    if direction is None:
        raise InvalidOption(
            "the run is a dict of one direction and does not say which; name it: evaluate(i2t={...}), "
            "evaluate(t2i={...}), or evaluate({...}, direction='t2t')"
        )
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    return RankingsRun(make_lists({direction: given}))


def _make_run_of_arrays(given: Mapping[str, Any]) -> Run:
    """The embeddings or the scores in a dict of arrays with the names that they have in a file."""
    arrays = {name: to_array(f"run, {name}", on_host(values)) for name, values in given.items()}
    vectors = [name for name in arrays if name.endswith("_embeddings")]
    scores = [name for name in ("scores", "scores_i2t", "scores_t2i") if name in arrays]
    if not scores:
        return make_embeddings(None, arrays, {})
    if vectors:
        raise MalformedRun(f"run: holds both {scores[0]} and {' and '.join(vectors)}; give one of them")
    return read_scores(None, arrays)
