"""Recognises ids that are row numbers or those of the other side, and says which line of Python gets the right ones."""

from __future__ import annotations

from cxc_eccv.runs import DirectionScoresRun, EmbeddingsRun, RankingsRun, Run, ScoresRun
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.types import SIDES, IntArray, find_positions

MISTAKEN_SHARE = 0.5
"""Ids are mostly those of a side if they share more than this part of the smaller of the two sets."""

FROM_YOUR_LIST = "the list that you encoded has the ids"


def describe_mistaken_ids(run: Run, split: Split) -> str | None:
    """One sentence if the ids of a run are row numbers or of the other side, and the Python that mends them, or None.

    The line of Python takes the arrays of the run by their names in a file, such as ``image_ids``.
    """
    numbered = [side for side in SIDES if _are_row_numbers(run.ids(side), split.ids(side))]
    if numbered:
        fault, code = _describe_row_numbers(run, split, numbered)
    elif _are_of_other_side(run.ids("images"), split.image_ids, split.caption_ids):
        fault, code = _describe_captions_as_images(run, split)
    elif _are_of_other_side(run.ids("captions"), split.caption_ids, split.image_ids):
        fault = (
            f"the caption ids are image ids; every caption has its own id: where the rows are those of {_title(split)} "
            f"in its order, this line of Python gets them, else {FROM_YOUR_LIST}"
        )
        code = f"{_open(split)}; caption_ids = split.caption_ids"
    else:
        return None
    message = f"{run.path or 'run'}: {fault}"
    return f"{message}:\n    {code}" if code else f"{message}."


def _are_row_numbers(ids: IntArray, right: IntArray) -> bool:
    """Whether ids are 0 to N - 1 or 1 to N, in any order, and not those of the split."""
    if ids.size < 2 or ids.min() not in (0, 1) or ids.max() - ids.min() != ids.size - 1:
        return False
    return not find_positions(ids, right)[1].all()


def _are_of_other_side(ids: IntArray, right: IntArray, other: IntArray) -> bool:
    return _are_mostly(ids, other) and not _are_mostly(ids, right)


def _are_mostly(ids: IntArray, among: IntArray) -> bool:
    return int(find_positions(ids, among)[1].sum()) > MISTAKEN_SHARE * min(ids.size, among.size)


def _describe_row_numbers(run: Run, split: Split, sides: list[str]) -> tuple[str, str]:
    names = " and ".join(
        f"the {side.removesuffix('s')} ids ({run.ids(side).min()} to {run.ids(side).max()})" for side in sides
    )
    lines = [_map_row_numbers(run, split, side) for side in sides]
    if "" in lines:
        sizes = f"{split.image_ids.size:,} images and {split.caption_ids.size:,} captions"
        return f"{names} are row numbers, but {_title(split)} has {sizes}; {FROM_YOUR_LIST}", ""
    return (
        f"{names} are row numbers; where they count the rows of {_title(split)} in its order, this line of Python gets "
        f"the ids, else {FROM_YOUR_LIST}",
        "; ".join([_open(split), *lines]),
    )


def _map_row_numbers(run: Run, split: Split, side: str) -> str:
    """The Python that turns row numbers into ids; empty if they are not those of the split."""
    name = f"{side.removesuffix('s')}_ids"
    ids = run.ids(side)
    rows = f"{name} - 1" if ids.min() else name
    if ids.size <= split.ids(side).size:
        return f"{name} = split.{name}[{rows}]"
    if side == "images" and ids.size == split.caption_ids.size:
        return _keep_one_row(run, f"split.caption_image_ids[{rows}]")
    return ""


def _describe_captions_as_images(run: Run, split: Split) -> tuple[str, str]:
    if _are_of_other_side(run.ids("captions"), split.caption_ids, split.image_ids):
        if isinstance(run, RankingsRun) and len(run.lists) == 1:
            return _describe_other_direction(*run.lists), ""
        names = ("i2t", "t2i") if run.kind == "rankings" else ("image_ids", "caption_ids")
        fault = (
            "the image ids are caption ids, and the caption ids are image ids: images and captions are swapped; swap "
            "them, and what belongs to them if that is swapped too, with this line of Python"
        )
        return fault, f"{', '.join(names)} = {', '.join(reversed(names))}"
    fault = "the image ids are caption ids"
    line = _keep_one_row(run, "split.owners_of(image_ids)")
    if line and find_positions(run.ids("images"), split.caption_ids)[1].all():
        fault += "; where a row holds the image of its caption, this line of Python keeps one row of every image"
        return fault, f"{_open(split)}; {line}"
    fault += f"; every image has its own id, and this line of Python gets those of {_title(split)}"
    return fault, f"{_open(split)}; image_ids = split.image_ids"


def _describe_other_direction(direction: str) -> str:
    other = direction[::-1]
    return (
        f"the rankings called {direction} are of {other}: images and captions are swapped; give them as {other}: "
        f"evaluate({other}={{...}}), direction='{other}', --direction {other}"
    )


def _keep_one_row(run: Run, owners: str) -> str:
    """The Python that keeps the first row of every image; empty for rankings, which have no rows of images."""
    if isinstance(run, EmbeddingsRun):
        lines = ["image_embeddings = image_embeddings[rows]"]
    elif isinstance(run, ScoresRun):
        lines = ["scores = scores[rows]"]
    elif isinstance(run, DirectionScoresRun):
        places = {"i2t": "[rows]", "t2i": "[:, rows]"}
        lines = [f"scores_{name} = scores_{name}{places[name]}" for name in run.matrices]
    else:
        return ""
    first = f"import numpy as np; image_ids, rows = np.unique({owners}, return_index=True)"
    return "; ".join([first, *lines])


def _title(split: Split) -> str:
    return f"the {split.name} split of {split.collection.title}"


def _open(split: Split) -> str:
    """The Python that opens the split."""
    arguments = [repr(split.name)]
    if not split.collection.is_default:
        arguments.append(repr(split.collection.name))
    return f"import cxc_eccv as ce; split = {_make_library(split.library)}.split({', '.join(arguments)})"


def _make_library(library: Library) -> str:
    arguments = [] if library.data_dir is None else [repr(str(library.data_dir))]
    if library.restval_in_train:
        arguments.append("restval_in_train=True")
    return f"ce.Library({', '.join(arguments)})"
