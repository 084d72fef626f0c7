"""The training data of a run: groups of captions, their images and their tokens."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cxc_eccv.baselines.caption_groups import CaptionGroup, caption_groups, part_images
from cxc_eccv.baselines.demo import sample_images
from cxc_eccv.baselines.dual_encoder.gathering import process_count, process_rank
from cxc_eccv.baselines.dual_encoder.pairs import TrainingPairs
from cxc_eccv.baselines.dual_encoder.processing import token_ids, tokenizer_of
from cxc_eccv.builders.images import ImageFolder
from cxc_eccv.encoding.processes import Processes
from cxc_eccv.encoding.towers import picture_mode
from cxc_eccv.errors import InvalidOption, MalformedSource, SourceMissing
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.reading import read_lines

__all__ = ["image_paths", "pairs_from_file", "training_pairs", "warn_of_conversion"]


def training_pairs(
    library: Library,
    names: Sequence[str],
    processing: Any,  # noqa: ANN401 - a tokenizer or a processor
    *,
    mode: str,
    images: str | None,
    seed: int,
) -> TrainingPairs:
    """Pairs of parts of the data.

    Args:
        library: the raw sources.
        names: parts, as :func:`cxc_eccv.baselines.caption_groups.caption_groups` takes them.
        processing: the model's tokenizer or processor.
        mode: as in ``Objective``.
        images: folder with the images; needed unless the mode is ``t2t``.
        seed: of the draws.

    Raises:
        InvalidOption: no folder of images for a mode that needs one.
        SourceMissing: an image is not in the folder.
        MalformedSource: a file is no image, or has more than 8 bits a channel.

    Warns:
        UserWarning: how many captions are cut, and how many images are converted.
    """
    groups = caption_groups(library, names)
    paths = None
    if mode != "t2t":
        files = part_images(library, names)
        paths = image_paths([files[group.collection, group.image_id] for group in groups], images)
    return _pairs(groups, paths, processing, mode, seed)


def pairs_from_file(path: Path, processing: Any, *, mode: str, images: str | None, seed: int) -> TrainingPairs:  # noqa: ANN401
    """Pairs of a text file with lines of image file, tab, caption, as of Conceptual Captions.

    Lines of one image file become one group.

    Raises:
        MalformedSource: a line of another form, or a file that is no image or has more than 8 bits a channel.
        SourceMissing: an image is not in the folder.

    Warns:
        UserWarning: how many captions are cut, and how many images are converted.
    """
    found: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        name, tab, text = line.partition("\t")
        if not (name and tab and text.strip()):
            raise MalformedSource(path, f"line {number}", repr(line[:60]), "an image file, a tab, a caption")
        found.setdefault(name, []).append(text)
    rows = enumerate(found.values())
    groups = [CaptionGroup("pairs", row, tuple(range(len(texts))), tuple(texts)) for row, texts in rows]
    return _pairs(groups, image_paths(list(found), images) if mode != "t2t" else None, processing, mode, seed)


def image_paths(file_names: Sequence[str], folder: str | None) -> list[Path]:
    """The image files of these names below a folder; ``sample`` is that of the embedded sample.

    Raises:
        InvalidOption: no folder.
        SourceMissing: names the first that is missing, and how many are.
    """
    if folder == "sample":
        folder = str(sample_images())
    if folder is None:
        raise InvalidOption("training on images needs their folder: name it with --images")
    files = ImageFolder(folder)
    paths = [files.find(name) for name in file_names]
    missing = [name for name, path in zip(file_names, paths, strict=True) if path is None]
    if missing:
        raise SourceMissing(f"{len(missing)} of {len(paths)} images are not below {folder}, the first: {missing[0]}")
    return [path for path in paths if path is not None]


def _pairs(
    groups: Sequence[CaptionGroup],
    paths: list[Path] | None,
    processing: Any,  # noqa: ANN401 - as above
    mode: str,
    seed: int,
) -> TrainingPairs:
    if paths is not None:
        warn_of_conversion(paths)
    tokens = token_ids(tokenizer_of(processing), [text for group in groups for text in group.texts])
    return TrainingPairs(groups, tokens, co_captions="t2t" in mode, image_paths=paths, seed=seed)


def warn_of_conversion(paths: Sequence[Path]) -> None:
    """Say how many images are of which other modes than RGB, once, before they are converted.

    Counting while training would lose what the data loader's workers count, and tell of a 16-bit image only when its
    turn comes. A header takes about 30 microseconds; processes share the files.

    Args:
        paths: all training images, the same on every process.

    Raises:
        SourceMissing: a file is missing.
        MalformedSource: a file is no image, or has more than 8 bits a channel; names it.

    Warns:
        UserWarning: images of other modes, on the first process.
    """
    processes = Processes(process_rank(), process_count())
    own = Counter(picture_mode(path) for path in paths[processes.rank :: processes.count])
    modes = sum(processes.gather(own), Counter[str]())
    modes.pop("RGB", None)
    if modes and processes.rank == 0:
        named = ", ".join(f"{mode} {count}" for mode, count in sorted(modes.items()))
        warnings.warn(
            f"{modes.total()} of {len(paths)} training images are not RGB and are converted: {named}", stacklevel=2
        )
