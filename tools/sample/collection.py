"""The whole sample in memory: images with ids, splits, scenes and captions, in Karpathy order."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from sample.captions import Statement, describe, mistaken, sixth
from sample.scenes import Scene, empty_scene, scene_families

__all__ = ["CAPTIONS_PER_IMAGE", "Caption", "Picture", "draw_collection", "of_split", "seeded"]

SEED = 2021
FAMILIES = {"train": (60, 0), "restval": (10, 0), "val": (20, 2), "test": (20, 2)}
"""Families of scenes in each split and variants in each family; what a model learns from is varied."""

NO_FAMILY = -1
CAPTIONS_PER_IMAGE = 5
MISTAKES = {"val": 2, "test": 3}
WITH_SIXTH = {"train": 1, "test": 1}

# COCO's image ids end at 581,929: an id of the sample can never be taken for one of COCO.
IMAGE_IDS = range(600_000, 1_000_000)
CAPTION_IDS = range(1, 10_000)


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption id with the text as written and its claims."""

    caption_id: int
    statement: Statement


@dataclass(frozen=True, slots=True)
class Picture:
    """One image of the sample with its captions, ids ascending."""

    image_id: int
    split: str
    scene: Scene
    captions: tuple[Caption, ...]
    family: int

    @property
    def folder(self) -> str:
        """COCO's folder: only Karpathy's train split comes from train2014."""
        return "train2014" if self.split == "train" else "val2014"

    @property
    def file_name(self) -> str:
        """COCO's file name."""
        return f"COCO_{self.folder}_{self.image_id:012d}.jpg"

    @property
    def counted(self) -> tuple[Caption, ...]:
        """The five captions that the field evaluates."""
        return self.captions[:CAPTIONS_PER_IMAGE]


def seeded(purpose: str) -> random.Random:
    """A generator of its own for every purpose, so that a change to one part leaves the others as they are."""
    return random.Random(f"{SEED} {purpose}")  # noqa: S311 - drawn pictures keep no secret


def draw_collection() -> list[Picture]:
    """All images of all splits; the val2014 images come first and in mixed splits, as in dataset_coco.json."""
    rng = seeded("collection")
    scenes = [(split, scene, family) for split in FAMILIES for scene, family in _scenes(split)]
    texts = _statements(scenes, rng)
    image_ids = seeded("image ids").sample(IMAGE_IDS, len(scenes))
    caption_ids = iter(seeded("caption ids").sample(CAPTION_IDS, sum(map(len, texts))))
    pictures = []
    for image_id, (split, scene, family), statements in zip(image_ids, scenes, texts, strict=True):
        ids = sorted(next(caption_ids) for _ in statements)
        captions = tuple(map(Caption, ids, statements))
        pictures.append(Picture(image_id, split, scene, captions, family))
    rng.shuffle(pictures)
    return sorted(pictures, key=lambda picture: picture.folder, reverse=True)


def of_split(pictures: list[Picture], split: str) -> list[Picture]:
    """The images of one Karpathy split (``train``, ``restval``, ``val``, ``test``), order kept."""
    return [picture for picture in pictures if picture.split == split]


def _scenes(split: str) -> list[tuple[Scene, int]]:
    families = scene_families(seeded(f"scenes {split}"), *FAMILIES[split])
    scenes = [(scene, number) for number, family in enumerate(families) for scene in family]
    if split == "test":
        scenes[-1] = (empty_scene("mint"), NO_FAMILY)
    return scenes


def _statements(scenes: list[tuple[str, Scene, int]], rng: random.Random) -> list[list[Statement]]:
    """Captions of every scene, with the defects of the real data: sixth captions, mistakes, odd white space."""
    texts = [describe(scene, rng) for _, scene, _ in scenes]
    for split, count in WITH_SIXTH.items():
        for place in _some(scenes, split, count, rng):
            texts[place].append(sixth(scenes[place][1]))
    for split, count in MISTAKES.items():
        for place in _some(scenes, split, count, rng):
            position = next(n for n, statement in enumerate(texts[place]) if _can_be_mistaken(statement))
            texts[place][position] = mistaken(texts[place][position])
    for split, spoiled in (("test", _with_blank), ("val", _with_line_break)):
        place = _some(scenes, split, 1, rng)[0]
        texts[place][0] = replace(texts[place][0], text=spoiled(texts[place][0].text))
    return texts


def _with_blank(text: str) -> str:
    return f"{text} "


def _with_line_break(text: str) -> str:
    return "\n".join(text.rsplit(" ", 1))


def _some(scenes: list[tuple[str, Scene, int]], split: str, count: int, rng: random.Random) -> list[int]:
    two_kinds = [
        place
        for place, (name, scene, _) in enumerate(scenes)
        if name == split and len({item.kind for item in scene.items}) == 2
    ]
    return rng.sample(two_kinds, count)


def _can_be_mistaken(statement: Statement) -> bool:
    return len(statement.items) == 2 and all(item.kind and item.colour for item in statement.items)
