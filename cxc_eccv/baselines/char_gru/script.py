"""Train the character GRU: data, Trainer, the ensemble of its best snapshots, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from transformers import AutoTokenizer

from cxc_eccv.baselines.caption_groups import CaptionGroup, caption_groups
from cxc_eccv.baselines.char_gru.arguments import CharGruArguments, parsed_arguments
from cxc_eccv.baselines.char_gru.data import coco_text, held_out
from cxc_eccv.baselines.char_gru.ensemble import CharGruEnsemble, best_snapshots
from cxc_eccv.baselines.char_gru.image_features import ImageFeatures
from cxc_eccv.baselines.char_gru.model import CharGruModel
from cxc_eccv.baselines.char_gru.scoring import StsCorrelations
from cxc_eccv.baselines.char_gru.training import train as train_model
from cxc_eccv.baselines.dual_encoder.gathering import process_count, process_rank
from cxc_eccv.encoding import encode
from cxc_eccv.encoding.processes import Processes
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.evaluation import evaluate, report_to_json
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.collection import COCO, FLICKR8K, Collection
from cxc_eccv.types import Embeddings, Report
from cxc_eccv.writing import explained, replaced_file

__all__ = ["ensemble_of_best", "report_on", "train"]

REPORTS: Mapping[str, tuple[Collection, str]] = MappingProxyType(
    {
        "val": (COCO, "validation"),
        "validation": (COCO, "validation"),
        "test": (COCO, "test"),
        "flickr8k/dev": (FLICKR8K, "validation"),
        "flickr8k/test": (FLICKR8K, "test"),
    }
)
"""What ``--report_on`` may name."""


def train(command: Sequence[str]) -> Report | None:
    """Train, save the ensemble of the best snapshots, and score the split that ``--report_on`` names.

    Under torchrun the processes share the batches and the captions to encode; the first one writes, and all return the
    same report.

    Args:
        command: arguments as on the command line.

    Returns:
        The report; None without ``--report_on``.

    Raises:
        InvalidOption: arguments at odds with each other, or images that are trained on and selected by or reported on.
        CheckpointMismatch: the output folder holds checkpoints of another run.
        DataError: captions or features are missing or broken.
    """
    arguments = parsed_arguments(command)
    _check_report(arguments)
    library, folder = Library(arguments.data_dir), Path(arguments.output_dir)
    similarity = StsCorrelations(library, arguments.curve_sts) if arguments.curve_sts else None
    groups, selecting = _parts(library, arguments)
    features = ImageFeatures.read(arguments.image_features) if arguments.image_features else None
    with explained(folder):
        train_model(groups, selecting, arguments, features, similarity)
        processes = Processes(process_rank(), process_count())
        if processes.rank == 0:
            ensemble_of_best(folder / "snapshots", folder / "ensemble", arguments.ensemble)
    processes.wait()
    if arguments.report_on is None:
        return None
    report = report_on(folder / "ensemble", library, arguments.report_on, arguments, features)
    if processes.rank == 0:
        with replaced_file(folder / "report.json") as part:
            part.write_text(report_to_json(report), encoding="utf-8")
    return report


def ensemble_of_best(snapshots: Path, target: Path, count: int) -> None:
    """Save the ensemble of the best snapshots, with their tokenizer.

    Args:
        snapshots: folder of the snapshots and their scores.
        target: folder to write.
        count: how many.
    """
    chosen = best_snapshots(snapshots, count)
    CharGruEnsemble.of([CharGruModel.from_pretrained(path) for path in chosen]).save_pretrained(target)
    AutoTokenizer.from_pretrained(chosen[0], trust_remote_code=False).save_pretrained(target)


def report_on(
    model: Path, library: Library, name: str, arguments: CharGruArguments, features: ImageFeatures | None = None
) -> Report:
    """Retrieval on a split, and on COCO's all that captions and images allow, similarity among it.

    Args:
        model: folder of an ensemble.
        library: the raw sources.
        name: of the split, as in ``--report_on``.
        arguments: how COCO captions are entered, and the kind of intervals.
        features: of the split's images; None for captions alone.
    """
    ensemble = CharGruEnsemble.from_pretrained(model)
    collection, split = REPORTS[name]
    content = collection.content(library, split)
    texts = content.captions["text"].to_pylist()
    entered = [coco_text(text) for text in texts] if collection is COCO and arguments.coco_tokens else texts
    captions = zip(content.caption_ids.tolist(), entered, strict=True)
    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
    texts_alone = encode(ensemble, captions=captions, processor=tokenizer, batch_size=256, progress=False)
    images = None
    if features is not None:
        images = Embeddings(content.image_ids, features.encoded(ensemble, content.image_ids))
    run = replace(texts_alone, images=images)
    tasks = "all" if collection is COCO else "flickr8k"
    report = evaluate(run, tasks, split=split, data_dir=library, per_query=True, intervals=arguments.intervals)
    return replace(report, provenance={**report.provenance, "model": "character GRU", "training": arguments.identity})


def _check_report(arguments: CharGruArguments) -> None:
    Settings(intervals=arguments.intervals)
    if arguments.report_on is None:
        return
    if arguments.report_on not in REPORTS:
        raise UnknownName("split", arguments.report_on, REPORTS)
    if REPORTS[arguments.report_on][0] is FLICKR8K and arguments.image_features is None:
        raise InvalidOption(
            f"--report_on {arguments.report_on} is retrieval between images and captions: give --image_features, or "
            "report on COCO, whose captions are ranked by themselves too"
        )


def _parts(library: Library, arguments: CharGruArguments) -> tuple[list[CaptionGroup], list[CaptionGroup]]:
    """What is trained on, and what selects."""
    groups = _groups(library, arguments.train_on, arguments)
    if arguments.report_on is not None:
        collection, split = REPORTS[arguments.report_on]
        kind = "coco" if collection is COCO else "flickr"
        reported = {(kind, number) for number in collection.content(library, split).image_ids.tolist()}
        _refuse_seen(groups, reported, f"--report_on {arguments.report_on}")
    if arguments.select_on is None:
        return held_out(groups, arguments.held_out)
    selecting = _groups(library, arguments.select_on, arguments)
    _refuse_seen(groups, {(group.collection, group.image_id) for group in selecting}, "--select_on")
    return groups, selecting


def _refuse_seen(groups: Sequence[CaptionGroup], others: Set[tuple[str, int]], option: str) -> None:
    both = [group.image_id for group in groups if (group.collection, group.image_id) in others]
    if both:
        raise InvalidOption(
            f"{len(both)} images are in --train_on and in {option}, the first: {both[0]}; name parts that share none"
        )


def _groups(library: Library, names: Sequence[str], arguments: CharGruArguments) -> list[CaptionGroup]:
    groups = caption_groups(library, names)
    if not arguments.coco_tokens:
        return groups
    return [
        replace(group, texts=tuple(map(coco_text, group.texts))) if group.collection == "coco" else group
        for group in groups
    ]
