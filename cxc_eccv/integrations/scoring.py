"""What integrations share: images, the similarity of a model, scores, and reports as folders or as mteb's files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.builders.images import ImageFolder
from cxc_eccv.errors import InvalidOption, ModelError, SourceMissing
from cxc_eccv.evaluation import Request, evaluate_request, make_plan
from cxc_eccv.ranking.prepare import to_unit_length
from cxc_eccv.registry import task, tasks
from cxc_eccv.report.collect import collect_examples
from cxc_eccv.report.folder import write_folder
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.runs.embeddings import SIMILARITIES
from cxc_eccv.sources.catalog import OFFICIAL
from cxc_eccv.sources.library import Library
from cxc_eccv.types import DIRECTIONS, Embeddings, IntArray, Report, Result
from cxc_eccv.writing import write_texts

Compare = Callable[[Any, Any], Any]
"""A model's similarity function: vectors (N, D) and (M, D) to scores (N, M), as arrays or tensors."""


def main_key(direction: str, split: str, tasks: str | Sequence[str] = "all") -> str | None:
    """The key of the main score: of ECCV Caption if it has this direction and split, else of CxC, else None."""
    for name in ("eccv_caption", "cxc") if tasks == "all" else [tasks] if isinstance(tasks, str) else tasks:
        task_name, _, part = name.partition("/")
        directions = [each.name for each in task(task_name).parts_with("ranks")]
        if direction in directions and split in task(task_name).splits and part in ("", direction):
            return f"{task_name}/{direction}/{task(task_name).main_metric}"
    return None


def image_files(library: Library, split: str, folder: str | Path) -> tuple[IntArray, list[Path]]:
    """Ids and files of all images of a split."""
    table, image_folder = library.split(split).images, ImageFolder(folder)
    names = table["file_name"].to_pylist()
    files = [image_folder.find(name) for name in names]
    missing = [name for name, file in zip(names, files, strict=True) if file is None]
    if missing:
        raise SourceMissing(
            f"{len(missing)} of the {len(names)} images of {split} are not below {folder}, the first: {missing[0]}. "
            "Every image is in a gallery: name a folder with all of them."
        )
    return table["image_id"].to_numpy(), [file for file in files if file is not None]


def make_run(images: Embeddings | None, captions: Embeddings | None, compare: Compare, name: str) -> EmbeddingsRun:
    """A run of these vectors, with the similarity that the model uses."""
    # A few vectors of each side are enough to find the similarity. Scaling them by a power of two changes no cosine and
    # prevents overflow.
    few = [side.vectors[:64] for side in (images, captions) if side is not None]
    sides = [np.asarray(np.ldexp(vectors, -np.frexp(np.abs(vectors).max())[1])) for vectors in few]
    return EmbeddingsRun(images, captions, similarity=_find_similarity(compare, sides[0], sides[-1], name))


def _find_similarity(compare: Compare, left: NDArray[np.float32], right: NDArray[np.float32], name: str) -> str:
    """``cosine`` or ``dot``, whichever gives the model's own scores: what a model declares may be wrong."""
    import torch  # not at the top: a report in mteb's form needs none

    scores = torch.as_tensor(compare(left, right)).detach().float().cpu().numpy()
    expected = {"cosine": to_unit_length(left) @ to_unit_length(right).T, "dot": left @ right.T}
    deviations = {
        kind: float(np.abs(scores - expected[kind]).max()) if scores.shape == expected[kind].shape else np.inf
        for kind in SIMILARITIES
    }
    closest = min(SIMILARITIES, key=lambda kind: deviations[kind])
    if not deviations[closest] <= 0.01 * np.abs(expected[closest]).max():
        raise ModelError(
            f"{name} compares its vectors neither by cosine nor by dot product. Set its similarity function to one of "
            "these."
        )
    return closest


def score(
    run: EmbeddingsRun,
    tasks: str | Sequence[str],
    library: Library,
    split: str,
    *,
    direction: str | None = None,
    name: str | None = None,
) -> Report:
    """The report of a run, with intervals and per-query values; with ``direction``, of that direction only."""
    request = Request(tasks=tasks, split=split, per_query=True)
    if direction is not None:
        parts = make_plan(request, library, run).parts
        request = replace(
            request, tasks=[part.key for part in parts if part.task.part(part.name).direction == direction]
        )
    report = evaluate_request(run, request, library, progress=False)
    return replace(report, provenance=replace(report.provenance, model=name))


def write(folder: Path, report: Report, run: EmbeddingsRun, library: Library) -> None:
    """Write the folder of a report, with the items retrieved for some queries."""
    write_folder(folder, report, collect_examples(run, report, library))


SUBSET = "default"
"""What mteb calls the only subset of a task."""

LANGUAGE = "eng-Latn"

META = "model_meta.json"

NO_REVISION = "no_revision_available"
"""What mteb calls the revision of a model that has none."""


def task_name(direction: str, split: str, edition: str) -> str:
    """The name of our task in mteb.

    mteb keeps results by the name of the task and averages over its splits. So results on other data, or with another
    main score, need another name.

    Example:
        >>> task_name("i2t", "test", "official"), task_name("t2t", "validation", "sample")
        ('CxcEccvI2T', 'CxcEccvT2T.validation.sample')
    """
    other_split = "" if split == "test" else f".{split}"
    other_edition = "" if edition == OFFICIAL else f".{edition}"
    return f"CxcEccv{direction.upper()}{other_split}{other_edition}"


def data_revision(edition: str, version: str) -> str:
    """What mteb records as the revision of the data."""
    return f"{edition} {version}"


def task_scores(report: Report) -> dict[str, Any]:
    """Every score of a report under its key, and the intervals, as mteb keeps them for one task."""
    intervals = {result.key: [result.low, result.high] for result in report.results if result.low is not None}
    return {**report.scores, "intervals": intervals}


def _find_direction(result: Result) -> str:
    """The direction of a result; empty for one of a whole task."""
    return next((part.direction for part in tasks()[result.task].parts if part.name == result.direction), "")


def mteb_results(report: Report) -> dict[str, dict[str, Any]]:
    """Name of the task to the content of mteb's JSON file, for each direction whose main score the report has.

    The content is the same as of ``mteb.evaluate`` with :func:`cxc_eccv.integrations.mteb.mteb_task`, except that mteb
    did not compute it: version and time are null.

    Raises:
        InvalidOption: the report covers a part of the split, other labels or modified data, or has no main score.
    """
    if report.departure:
        raise InvalidOption(f"the report is on {report.departure}; mteb's tasks are on the whole, official data")
    split, data = report.provenance.split, report.provenance.data
    files = {}
    for direction in DIRECTIONS:
        results = tuple(result for result in report.results if _find_direction(result) == direction)
        scores = task_scores(Report(results))
        key = main_key(direction, split)
        if key in scores:
            name = task_name(direction, split, data.edition)
            files[name] = {
                "dataset_revision": data_revision(data.edition, data.version),
                "task_name": name,
                "mteb_version": None,
                "scores": {
                    split: [{**scores, "main_score": scores[key], "hf_subset": SUBSET, "languages": [LANGUAGE]}]
                },
                "evaluation_time": None,
                "kg_co2_emissions": None,
            }
    if not files:
        keys = dict.fromkeys(filter(None, (main_key(direction, split) for direction in DIRECTIONS)))
        raise InvalidOption(f"the report has no main score of mteb's tasks; evaluate one of these: {', '.join(keys)}")
    return files


def write_mteb(folder: Path, reports: Mapping[str, Report]) -> list[Path]:
    """Write the results of every model, name to report, for ``mteb.ResultCache(folder)``; return the files' paths."""
    written = []
    for model, files in {model: mteb_results(report) for model, report in reports.items()}.items():
        place = re.sub(r"[^\w.-]", "_", model.replace("/", "__")).lstrip(".") or "model"
        target = folder / "results" / place / NO_REVISION
        contents: dict[str, Any] = {f"{name}.json": content for name, content in files.items()}
        if not (target / META).is_file():  # mteb's own says more
            contents[META] = {"name": model, "revision": NO_REVISION}
        dumped = partial(json.dumps, indent=2, ensure_ascii=False, allow_nan=False)
        written += write_texts(target, {name: dumped(content) + "\n" for name, content in contents.items()})
    return written
