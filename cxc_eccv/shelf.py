"""A shelf: a folder of run files with an index, whose models are scored again under any labels."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cxc_eccv.comparison import Comparison, ScoredReport
from cxc_eccv.errors import HubError, InvalidOption, MalformedRun
from cxc_eccv.evaluation import evaluate
from cxc_eccv.evaluation.kept import keep_run
from cxc_eccv.hub.card import CARD, join_card
from cxc_eccv.hub.client import Repository
from cxc_eccv.registry import is_main
from cxc_eccv.runs import RankingsRun, load_run
from cxc_eccv.runs.kept import SHELF_INDEX, SUFFIX, read_kept_facts, write_run_file
from cxc_eccv.runs.run import MODEL, check_name, hash_file
from cxc_eccv.sources.library import Library
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.terminal import markdown_table, markdown_text
from cxc_eccv.types import Result
from cxc_eccv.types.models import check_training_data, describe_training_data
from cxc_eccv.types.strict_json import decode_json
from cxc_eccv.wording import key_name, name_data, score_cell, task_name
from cxc_eccv.writing import replaced_file

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class ShelvedRun:
    """A run on a shelf: its file with size and hash, its model, and what the file says it was made from."""

    model: str
    training_data: tuple[str, ...]
    split: str
    edition: str
    depth: int
    file: str
    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> ShelvedRun:
        """The entry of a run file, from its metadata."""
        try:
            facts, schema = read_kept_facts(path), pq.read_schema(path)
        except (OSError, ValueError) as error:  # pyarrow's errors are of these
            raise MalformedRun(f"{path}: not readable Parquet ({error}); pull or add it again") from None
        if facts is None:
            raise MalformedRun(f"{path}: is not a run file; add the run to the shelf with cxc-eccv shelf add")
        model = (schema.metadata or {}).get(MODEL.encode(), b"").decode() or path.name.removesuffix(SUFFIX)
        try:
            about = tuple(facts["training_data"]), facts["split"], facts["data"]["edition"], facts["depth"]
        except (KeyError, TypeError) as error:
            raise MalformedRun(f"{path}: its metadata lacks {error}; add the run to the shelf again") from None
        return cls(model, *about, path.name, path.stat().st_size, hash_file(path))


def read_shelf(folder: str | Path) -> tuple[ShelvedRun, ...]:
    """The runs on a shelf, by model; their files must be those of its index.

    Raises:
        InvalidOption: the folder has no index.
        MalformedRun: the index is damaged, or files are missing, changed, or not in the index.
    """
    folder = Path(folder)
    index = folder / SHELF_INDEX
    if not index.is_file():
        raise InvalidOption(f"{folder} is not a shelf: it has no {SHELF_INDEX}. Make one with cxc-eccv shelf add")
    try:
        named = {run["file"]: run["sha256"] for run in decode_json(index.read_text(encoding="utf-8"))["runs"]}
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedRun(f"{index}: is damaged ({error}); remove it and add the files again") from None
    runs = [ShelvedRun.of(path) for path in _run_files(folder)]
    hashes = {run.file: run.sha256 for run in runs}
    for file in sorted({*named, *hashes}):
        if hashes.get(file) != named.get(file):
            what = "is missing" if file not in hashes else "is not in the index" if file not in named else "has changed"
            raise MalformedRun(f"{folder / file}: {what}; add it with cxc-eccv shelf add, or pull it again")
    _refuse_repeats(folder, runs)
    return tuple(sorted(runs, key=lambda run: run.model))


def _run_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def _refuse_repeats(folder: Path, runs: Sequence[ShelvedRun]) -> None:
    names = [run.model for run in runs]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise MalformedRun(f"{folder}: two files are of the model {repeated[0]}; add one of them with another --name")


def add_run(
    folder: str | Path,
    file: str | Path,
    *,
    name: str | None = None,
    training_data: Sequence[str] | None = None,
    **options: Any,  # noqa: ANN401 - of keep_run
) -> ShelvedRun:
    """Put a run on a shelf, which is made if there is none, and write its index.

    Args:
        folder: the shelf.
        file: a run file, or embeddings or scores, from which one is made.
        name: name of the model; None for that in the file, else the file's name.
        training_data: as in :func:`cxc_eccv.keep_run`; None for what the file says.
        **options: ``split``, ``data_dir``, ``similarity`` and others of :func:`cxc_eccv.keep_run`.

    Raises:
        InvalidOption: the shelf has another run of this model, or an option is out of range.
        RunError: the file is malformed, or does not fit the data.
    """
    folder, file = Path(folder), Path(file)
    check_name("shelf add", name, InvalidOption)
    run = load_run(file)
    model = name or run.model or file.name.removesuffix(SUFFIX).removesuffix(file.suffix)
    target = folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', model).strip('-.') or 'run'}{SUFFIX}"
    if target.exists() and target.resolve() != file.resolve():
        raise InvalidOption(f"{folder} has {target.name} already; give this run another --name, or remove that file")
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(run, RankingsRun):
        keep_run(target, run, name=model, training_data=training_data, **options)
    elif run.kept is None:
        raise InvalidOption(f"{file}: holds rankings; a shelf takes run files, embeddings or scores")
    elif training_data is None and run.model == model:
        with replaced_file(target) as part:
            shutil.copyfile(file, part)
    else:
        trained_on = run.kept["training_data"] if training_data is None else list(check_training_data(training_data))
        write_run_file(target, replace(run, model=model, kept={**run.kept, "training_data": trained_on}))
    _write_index(folder)
    return ShelvedRun.of(target)


def _write_index(folder: Path) -> None:
    """Write the index, for programs and, as a card, for people."""
    runs = sorted((ShelvedRun.of(path) for path in _run_files(folder)), key=lambda run: run.model)
    _refuse_repeats(folder, runs)
    with replaced_file(folder / SHELF_INDEX) as part:
        content = {"schema": SCHEMA, "runs": [asdict(run) for run in runs]}
        part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    with replaced_file(folder / CARD) as part:
        part.write_text(_write_card(runs), encoding="utf-8", newline="\n")


def _write_card(runs: Sequence[ShelvedRun]) -> str:
    texts = [map(markdown_text, (run.model, describe_training_data(run.training_data))) for run in runs]
    rows = [(*text, run.split, run.depth, run.file) for text, run in zip(texts, runs, strict=True)]
    sections = [
        "# Runs of image-text retrieval models",
        "Every file keeps what one model ranked: the top of every list, and the exact ranks of known positives.",
        markdown_table(("model", "trained on", "split", "depth", "file"), rows),
        "Score all models under any labels, with `pip install cxc_eccv`:",
        "```sh\ncxc-eccv shelf pull OWNER/NAME shelf\ncxc-eccv shelf rescore shelf --sources coco,cxc,eccv\n```",
    ]
    return join_card("tags:\n- cxc_eccv\nviewer: false", "\n\n".join(sections))


def pull_shelf(folder: str | Path, repository: Repository) -> tuple[list[str], tuple[ShelvedRun, ...]]:
    """Download the run files of a shelf on the Hub that a folder lacks; returns their names, and all its runs.

    Raises:
        HubError: there is no such shelf, or a file did not arrive whole.
        InvalidOption: the folder has another file of the same name.
    """
    folder = Path(folder)
    revision = repository.head()
    if revision is None:
        raise HubError(f"{repository} does not exist, or you may not see it. Check the name, or run `hf auth login`")
    remote = {path: file for path, file in repository.files(revision).items() if re.fullmatch(rf"[^/]+{SUFFIX}", path)}
    if not remote:
        raise HubError(f"{repository} has no run file (NAME{SUFFIX}). Push a shelf with cxc-eccv shelf push")
    hashes = {path: file.lfs.sha256 if file.lfs else None for path, file in remote.items()}
    pulled = []
    folder.mkdir(parents=True, exist_ok=True)
    for path, sha256 in hashes.items():
        place = folder / path
        if place.exists() and sha256 is not None and hash_file(place) == sha256:
            continue
        if place.exists():
            raise InvalidOption(f"{place} differs from the file of {repository}; move it away, or name another folder")
        with tempfile.TemporaryDirectory() as temporary:
            file = repository.fetch(path, revision, Path(temporary))
            if sha256 is not None and hash_file(file) != sha256:
                raise HubError(f"{path} of {repository} did not arrive whole; run the command again")
            load_run(file)
            with replaced_file(place) as part:
                shutil.copyfile(file, part)
        pulled.append(path)
    _write_index(folder)
    return pulled, read_shelf(folder)


def rescore(
    folder: str | Path,
    tasks: str | Sequence[str] = "all",
    *,
    sources: str | Sequence[str] | None = None,
    data_dir: str | Path | Library | None = None,
    without: Collection[str] = (),
    confidence: float | None = 0.95,
    seed: int = 0,
    progress: bool = True,
) -> tuple[ScoredReport, ...]:
    """Score all models of a shelf, under the labels of their tasks or other ones; :func:`cxc_eccv.compare` tests them.

    The judgments are read once for all models. A model that lacks the rank of a new positive, because its list ends
    above it, is scored with the metrics that do not need it; ``report.skipped`` has the others with the reason.

    Args:
        folder: the shelf.
        tasks: as in :func:`cxc_eccv.evaluate`.
        sources: sources of labels that replace those of every task, as in :func:`cxc_eccv.evaluate`.
        data_dir: raw files, with label files if ``sources`` names any.
        without: leave out models that were trained on any of these data sets, such as ``coco_val``.
        confidence: confidence level of the intervals; None for no intervals.
        seed: seed of the bootstrap.
        progress: show progress bars when standard error is a terminal.

    Returns:
        A report for each model, with the values of queries of every task's main metric.

    Raises:
        InvalidOption: the shelf has runs of several splits, no model is left, or an option is out of range.
        RunError: a file is not as the index says.
    """
    folder = Path(folder)
    runs = [run for run in read_shelf(folder) if not set(run.training_data) & set(without)]
    if not runs:
        raise InvalidOption(f"{folder}: no model is left without {', '.join(without)}")
    splits = {run.split for run in runs}
    if len(splits) > 1:
        raise InvalidOption(f"{folder} has runs of the splits {', '.join(sorted(splits))}; keep one shelf for each")
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    options: dict[str, Any] = {"sources": sources, "data_dir": library, "confidence": confidence, "seed": seed}
    options |= {"per_query": True, "progress": progress}
    scored = []
    for run in runs:
        report = evaluate(load_run(folder / run.file), tasks, split=run.split, name=run.model, **options)
        fresh = ScoredReport.of(run.model, replace(report, origin=None), library)
        values = {key: fresh.per_query[key] for key in fresh.per_query if is_main(key)}  # all would take gigabytes
        scored.append(replace(fresh, report=replace(fresh.report, per_query=None), per_query=values))
    return tuple(scored)


def list_table(runs: Sequence[ShelvedRun]) -> Table:
    """The runs of a shelf, and what their models were trained on."""
    header = [(text,) for text in ("model", "trained on", "split", "depth", "size")]
    rows = [
        (run.model, describe_training_data(run.training_data), run.split, str(run.depth), f"{run.size / 1e6:.1f} MB")
        for run in runs
    ]
    return Table(header, rows, f"{len(runs)} run{'s'[: len(runs) != 1]}")


def main_tables(models: Sequence[ScoredReport], comparison: Comparison | None = None) -> list[Table]:
    """A table for each task: its main metric of every model, with an asterisk where it differs from the baseline."""
    rows = {model.name: {row.key: row for row in model.report.results if is_main(row.key)} for model in models}
    differs = () if comparison is None else tuple(row for row in comparison.differences if comparison.significant(row))
    starred = {(row.model, row.key) for row in differs}
    keys: dict[str, list[str]] = {}
    for key in dict.fromkeys(key for of_model in rows.values() for key in of_model):
        keys.setdefault(key.partition("/")[0], []).append(key)
    notes = []
    if comparison is not None:
        share = f"{comparison.settings.level:.2g}, Holm's correction for {len(comparison.differences)} tests"
        notes = [f"* differs from {comparison.baseline} (level {share})", *comparison.notes]
    first, tables = models[0].report, []
    for task, of_task in keys.items():
        cells: list[list[str | Cell]] = [
            [name, *(_cell(of_model.get(key), (name, key) in starred) for key in of_task)]
            for name, of_model in rows.items()
        ]
        title = ", labels ".join(filter(None, (task_name(task), first.labels)))
        header = [("model",), *((key_name(key).strip(),) for key in of_task)]
        tables.append(Table(header, cells, title, data=name_data(first)))
    return [*tables[:-1], *(replace(last, notes=notes) for last in tables[-1:])]


def _cell(result: Result | None, starred: bool) -> Cell:
    if result is None:
        return Cell(MISSING)
    cell = score_cell(result)
    return replace(cell, interval=f"{cell.interval} {'*' if starred else ' '}")
