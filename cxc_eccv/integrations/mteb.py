"""Tasks for mteb, which loads and runs the model; this package ranks and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import datasets

from cxc_eccv.builders.dataset_cards import bibtex, list_groups
from cxc_eccv.builders.dataset_config import dataset_configs
from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.evaluation import Request
from cxc_eccv.evaluation.request import check_split
from cxc_eccv.extras import needs_extra
from cxc_eccv.integrations.model_runs import main_key, make_run, score
from cxc_eccv.integrations.mteb_files import LANGUAGE, SUBSET, data_revision, task_name, task_scores
from cxc_eccv.report import Report
from cxc_eccv.report.saving import write_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, find_sides

with needs_extra("mteb", "st", "train", subject="cxc_eccv.integrations.mteb needs"):
    import mteb
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import PromptType
    from torch.utils.data import DataLoader

MTEB_MODALITIES = {"images": "image", "captions": "text"}


TASK_KINDS: Mapping[str, tuple[str, str | dict[str, str]]] = {
    "i2t": ("Captions for an image", {"query": "Find an image caption describing the following image."}),
    "t2i": ("Images for a caption", {"query": "Find an image that matches the given caption."}),
    "t2t": ("Captions for a caption", "Retrieve semantically similar text."),
    "i2i": ("Images for an image", "Retrieve images of a similar scene."),
}
"""Direction to what it finds, and to the instruction of mteb's tasks of the same type."""


class CxcEccvTask(mteb.AbsTask):
    """All of our tasks in one direction, with the report of the last model; made by :func:`mteb_task`."""

    direction: ClassVar[str]
    library: ClassVar[Library]
    images: ClassVar[Path | None]
    output: ClassVar[Path | None]
    abstask_prompt = ""
    data_loaded: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.report: Report | None = None
        if "i" in self.direction and self.images is None:
            raise InvalidOption(f"{self.direction} ranks images; name the folder with the images of the split")

    def load_data(self, num_proc: int | None = None, **_options: Any) -> None:  # noqa: ANN401 - mteb's own
        """Load the images and captions that the direction needs; images are opened when they are encoded."""
        if not self.data_loaded:
            (split,) = self.metadata.eval_splits
            sides = {side: self._items(side, split) for side in dict.fromkeys(find_sides(self.direction))}
            self.dataset = {SUBSET: {split: sides}}
            self.data_loaded = True

    def _items(self, side: str, split: str) -> datasets.Dataset:
        data = self.library.split(split)
        if side == "captions":
            ids = data.caption_ids
            values = data.captions["text"].to_pylist()
            feature = datasets.Value("string")
        else:
            assert self.images is not None  # noqa: S101 - checked by __init__
            files = ImageFolder(self.images).find_all(data.images["file_name"].to_pylist()).values()
            # Some photographs are grey, and some models need RGB.
            ids = data.image_ids
            values = list(map(str, files))
            feature = datasets.Image(mode="RGB")
        features = datasets.Features({"id": datasets.Value("int64"), MTEB_MODALITIES[side]: feature})
        return datasets.Dataset.from_dict({"id": ids.tolist(), MTEB_MODALITIES[side]: values}, features=features)

    def _evaluate_subset(
        self,
        model: Any,  # noqa: ANN401 - one of mteb's protocols
        data_split: Mapping[str, datasets.Dataset],
        *,
        hf_split: str,
        encode_kwargs: Mapping[str, Any],
        num_proc: int | None = None,
        **_options: Any,  # noqa: ANN401 - mteb's own
    ) -> dict[str, Any]:
        """Encode both sides and score them; return every score with its interval."""
        name = model.mteb_model_meta.name
        if name in (None, "no_model_name/available"):  # mteb's placeholder for a model without a name
            name = type(getattr(model, "model", model)).__name__
        query, gallery = find_sides(self.direction)
        # Within one modality each item has one vector, as query and in the gallery, as in mteb's similarity tasks.
        roles = {query: None} if query == gallery else {query: PromptType.query, gallery: PromptType.document}
        vectors = {
            side: self._encode(model, side, data_split[side], role, hf_split, encode_kwargs, num_proc)
            for side, role in roles.items()
        }
        run = make_run(vectors.get("images"), vectors.get("captions"), model.similarity, name)
        request = Request(split=hf_split, per_query=True, name=name)
        self.report = report = score(run, request, self.library, self.direction)
        if self.output is not None:
            write_folder(self.output / name.replace("/", "__") / f"{hf_split}_{self.direction}", report)
        return task_scores(report)

    def _encode(
        self,
        model: Any,  # noqa: ANN401
        side: str,
        items: datasets.Dataset,
        role: PromptType | None,
        split: str,
        options: Mapping[str, Any],
        num_proc: int | None,
    ) -> Embeddings:
        # Not mteb's own loader, which strips the captions.
        batches = DataLoader(
            items.remove_columns("id"),
            batch_size=options.get("batch_size", 32),
            collate_fn=_collate,
            num_workers=num_proc if num_proc and num_proc > 1 else 0,
        )
        place = {"task_metadata": self.metadata, "hf_split": split, "hf_subset": SUBSET}
        vectors = model.encode(batches, prompt_type=role, **place, **options)
        if getattr(vectors, "is_sparse", False):  # of SPLADE
            vectors = vectors.to_dense()
        return Embeddings(items["id"][:], vectors)

    def _calculate_descriptive_statistics_from_split(self, split: str, **_options: Any) -> Any:  # noqa: ANN401
        """How many items are encoded."""
        assert self.dataset is not None  # noqa: S101 - mteb loads the data before
        return {"num_samples": sum(items.num_rows for items in self.dataset[SUBSET][split].values())}


def _collate(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    # A batch as mteb's models expect it; a named function, so that worker processes find it.
    return {name: [row[name] for row in rows] for name in rows[0]}


def mteb_task(
    direction: str,
    *,
    split: str = "test",
    images: str | Path | None = None,
    data_dir: str | Path | None = None,
    output: str | Path | None = None,
) -> CxcEccvTask:
    """A task for ``mteb.evaluate``: all our tasks of one direction, which encode the model only once.

    As in mteb's tasks, queries are encoded as queries and the gallery as documents; within one modality every item is
    encoded once, without a role. :func:`cxc_eccv.evaluate` ranks and scores the vectors: scores have the keys of a
    report, and ``intervals`` has their bounds. The main score is mAP@R of ECCV Caption or, where ECCV Caption has no
    labels (``validation``, ``t2t``, ``i2i``), recall at 1 of CxC.

    Args:
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        split: ``test`` or ``validation``.
        images: folder with the images of the split; ``t2t`` needs none.
        data_dir: mirror folder, ``"sample"``, or None for ``CXC_ECCV_DATA``, else the download cache.
        output: write each model's report to ``<output>/<model>/<split>_<direction>``.

    Raises:
        UnknownName: no such direction or split.
        InvalidOption: the direction ranks images, and no folder of them is given.

    Example:
        >>> task = mteb_task("t2t", data_dir="sample")
        >>> task.metadata.name, task.metadata.main_score
        ('CxcEccvT2T.sample', 'cxc/t2t/recall_at_1')
    """
    return task_class(direction, split, images, data_dir, output)()


def task_class(
    direction: str,
    split: str,
    images: str | Path | None = None,
    data_dir: str | Path | None = None,
    output: str | Path | None = None,
) -> type[CxcEccvTask]:
    """The class of a task, arguments as of :func:`mteb_task`: mteb reads metadata from classes."""
    if direction not in TASK_KINDS:
        raise UnknownName("direction", direction, TASK_KINDS)
    check_split(split)
    library = Library(data_dir)
    content = {
        "direction": direction,
        "library": library,
        "images": None if images is None else Path(images),
        "output": None if output is None else Path(output),
        "metadata": _describe(direction, split, library),
        "__doc__": CxcEccvTask.__doc__,
    }
    return type(f"CxcEccv{direction.upper()}", (CxcEccvTask,), content)


def _describe(direction: str, split: str, library: Library) -> TaskMetadata:
    title, prompt = TASK_KINDS[direction]
    catalog = library.catalog
    return TaskMetadata(
        name=task_name(direction, split, library.edition),
        description=f"{title} of MS-COCO, with labels of ECCV Caption, Crisscrossed Captions and others, scored "
        "by cxc_eccv.",
        prompt=prompt,
        type="Retrieval" if direction == "t2t" else "Any2AnyRetrieval",
        category=direction,
        modalities=list(dict.fromkeys(MTEB_MODALITIES[side] for side in find_sides(direction))),
        eval_splits=[split],
        eval_langs=[LANGUAGE],
        main_score=main_key(direction, split),
        dataset={"path": "cxc_eccv", "revision": data_revision(library.edition, catalog.version)},
        annotations_creators="human-annotated",
        bibtex_citation=bibtex(list_groups([dataset_configs()["retrieval"]]), catalog),
    )
