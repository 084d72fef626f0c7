"""Train the character GRU: data, Trainer, the ensemble of its best snapshots, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from transformers import AutoTokenizer

from cxc_eccv.baselines.caption_groups import CaptionGroup, caption_groups
from cxc_eccv.baselines.char_gru.arguments import CharGruArguments
from cxc_eccv.baselines.char_gru.characters import coco_text
from cxc_eccv.baselines.char_gru.co_captions import held_out
from cxc_eccv.baselines.char_gru.ensemble import CharGruEnsemble
from cxc_eccv.baselines.char_gru.image_features import ImageFeatures
from cxc_eccv.baselines.char_gru.model import CharGruModel
from cxc_eccv.baselines.char_gru.snapshots import best_snapshots
from cxc_eccv.baselines.char_gru.training import train as train_model
from cxc_eccv.baselines.dual_encoder.gathering import process_count, process_rank
from cxc_eccv.baselines.script_arguments import read_arguments
from cxc_eccv.encoding import encode
from cxc_eccv.encoding.processes import Processes
from cxc_eccv.errors import UnknownName
from cxc_eccv.evaluation import evaluate, report_to_json
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, Report
from cxc_eccv.writing import replaced_file

__all__ = ["ensemble_of_best", "report_on", "train"]

ABOUT = "Train the character GRU on captions of the same image, or on captions with image features."
SPLITS = {"val": "validation", "validation": "validation", "test": "test"}


def train(command: Sequence[str]) -> Report | None:
    """Train, save the ensemble of the best snapshots, and score the split that ``--report_on`` names.

    Under torchrun the processes share the batches and the captions to encode; the first one writes, and all return the
    same report.

    Args:
        command: arguments as on the command line.

    Returns:
        The report; None without ``--report_on``.

    Raises:
        InvalidOption: arguments at odds with each other.
        CheckpointMismatch: the output folder holds checkpoints of another run.
        DataError: captions or features are missing or broken.
    """
    (arguments,) = read_arguments("char-gru", ABOUT, [CharGruArguments], command)
    if arguments.report_on is not None and arguments.report_on not in SPLITS:
        raise UnknownName("split", arguments.report_on, SPLITS)
    library, folder = Library(arguments.data_dir), Path(arguments.output_dir)
    groups = [_as_entered(group, arguments) for group in caption_groups(library, arguments.train_on)]
    features = ImageFeatures.read(arguments.image_features) if arguments.image_features else None
    train_model(*held_out(groups, arguments.held_out), arguments, features)
    processes = Processes(process_rank(), process_count())
    if processes.rank == 0:
        ensemble_of_best(folder / "snapshots", folder / "ensemble", arguments.ensemble)
    processes.wait()
    if arguments.report_on is None:
        return None
    report = report_on(folder / "ensemble", library, SPLITS[arguments.report_on], arguments, features)
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
    model: Path, library: Library, split: str, arguments: CharGruArguments, features: ImageFeatures | None = None
) -> Report:
    """Retrieval and similarity on Crisscrossed Captions.

    Args:
        model: folder of an ensemble.
        library: the raw sources.
        split: ``validation`` or ``test``.
        arguments: how COCO captions are entered.
        features: of the split's images; None for captions alone.
    """
    ensemble = CharGruEnsemble.from_pretrained(model)
    content = library.karpathy(split)
    texts = content.captions["text"].to_pylist()
    entered = [coco_text(text) for text in texts] if arguments.coco_tokens else texts
    captions = zip(content.caption_ids.tolist(), entered, strict=True)
    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
    texts_alone = encode(ensemble, captions=captions, processor=tokenizer, batch_size=256, progress=False)
    images = None
    if features is not None:
        images = Embeddings(content.image_ids, features.encoded(ensemble, content.image_ids))
    run = replace(texts_alone, images=images)
    report = evaluate(run, split=split, data_dir=library, per_query=True)
    return replace(report, provenance={**report.provenance, "model": "character GRU", "training": arguments.identity})


def _as_entered(group: CaptionGroup, arguments: CharGruArguments) -> CaptionGroup:
    if group.collection != "coco" or not arguments.coco_tokens:
        return group
    return replace(group, texts=tuple(coco_text(text) for text in group.texts))
