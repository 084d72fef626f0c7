"""The folder of the sample: all its files in memory, written to disk, or compared with what is there."""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from sample.catalog import HEADER, catalog_toml
from sample.collection import draw_collection
from sample.drawing import jpeg_bytes, picture
from sample.sources.entailments import entailment_jsonl
from sample.sources.instances import instances_json
from sample.sources.karpathy import karpathy_json
from sample.sources.positives import caption_order, eccv_files, truth
from sample.sources.ratings import cxc_csv, rate_captions, rate_images, rate_links

__all__ = ["differences", "same_picture", "sample_files", "write_folder"]

PIXEL_TOLERANCE = 1.0
"""Mean difference of two decoded pictures in grey levels; JPEG encoders and resamplers differ by less."""


def sample_files() -> dict[str, bytes]:
    """Path inside the folder to content, for every file of the sample."""
    pictures = draw_collection()
    files = {"coco/dataset_coco.json": karpathy_json(pictures)}
    for folder in ("train2014", "val2014"):
        files[f"coco/instances_{folder}.json"] = instances_json(pictures, folder)
    for split in ("val", "test"):
        for kind, rate in (("sts", rate_captions), ("sis", rate_images), ("sits", rate_links)):
            files[f"cxc/{kind}_{split}.csv"] = cxc_csv(kind, rate(pictures, split), pictures)
        files[f"entailment/entailment_{split}.jsonl"] = entailment_jsonl(pictures, split)
    positives = eccv_files(pictures, rate_links(pictures, "test"))
    files |= {f"eccv/{name}": content for name, content in positives.items()}
    files["eccv/coco_test_ids.npy"] = caption_order(pictures)
    files["truth.json"] = truth(pictures)
    files["catalog.toml"] = catalog_toml(files)
    images = {f"coco/images/{shown.file_name}": jpeg_bytes(picture(shown.scene)) for shown in pictures}
    return files | images


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make ``folder`` hold these files and nothing else."""
    if folder.exists():
        if any(folder.iterdir()) and not _is_sample(folder):
            raise FileExistsError(f"{folder} is not empty and no sample; give another folder")
        shutil.rmtree(folder)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def differences(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """One line per file that is missing, superfluous or different; pictures are compared by their pixels."""
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    found = [f"{name}: superfluous" for name in sorted(present - files.keys())]
    for name, content in sorted(files.items()):
        if name not in present:
            found.append(f"{name}: missing")
        elif not _same(name, (folder / name).read_bytes(), content):
            found.append(f"{name}: different")
    return found


def same_picture(one: bytes, other: bytes) -> bool:
    """Whether two image files show the same, up to what encoders and resamplers change."""
    try:
        pixels = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), dtype=np.float64) for data in (one, other)]
    except (UnidentifiedImageError, OSError):
        return False
    return pixels[0].shape == pixels[1].shape and float(np.abs(pixels[0] - pixels[1]).mean()) <= PIXEL_TOLERANCE


def _is_sample(folder: Path) -> bool:
    catalog = folder / "catalog.toml"
    return catalog.is_file() and HEADER.encode() in catalog.read_bytes()


def _same(name: str, one: bytes, other: bytes) -> bool:
    return same_picture(one, other) if name.endswith(".jpg") else one == other
