"""Image-caption retrieval on MS-COCO with corrected labels: Crisscrossed Captions (CxC) and ECCV Caption.

The Hub configs are named after a source and a direction (``cxc-i2t-corpus``, ``cxc-i2t-queries``, ``cxc-i2t-qrels``),
which are the subsets of the tasks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

# In mteb: the name of the dataset on the Hub, and a commit.
_PATH = str(Path(__file__).resolve().parent)
_REVISION = "main"

_COCO = r"""
@inproceedings{lin2014microsoft,
  archiveprefix = {arXiv},
  author = {Lin, Tsung-Yi and Maire, Michael and Belongie, Serge and Hays, James and Perona, Pietro and Ramanan, Deva and Doll{\'a}r, Piotr and Zitnick, C. Lawrence},
  booktitle = {European Conference on Computer Vision},
  eprint = {1405.0312},
  title = {Microsoft coco: Common objects in context},
  year = {2014},
}
"""

_CXC = r"""
@inproceedings{parekh2021crisscrossed,
  archiveprefix = {arXiv},
  author = {Parekh, Zarana and Baldridge, Jason and Cer, Daniel and Waters, Austin and Yang, Yinfei},
  booktitle = {Conference of the European Chapter of the Association for Computational Linguistics},
  eprint = {2004.15020},
  title = {Crisscrossed Captions: Extended Intramodal and Intermodal Semantic Similarity Judgments for {MS-COCO}},
  year = {2021},
}
"""

_ECCV = r"""
@inproceedings{chun2022eccv,
  archiveprefix = {arXiv},
  author = {Chun, Sanghyuk and Kim, Wonjae and Park, Song and Chang, Minsuk and Oh, Seong Joon},
  booktitle = {European Conference on Computer Vision},
  eprint = {2204.03359},
  title = {{ECCV} Caption: Correcting False Negatives by Collecting Machine-and-Human-verified Image-Caption Associations for {MS-COCO}},
  year = {2022},
}
"""


class _CorrectedCOCORetrieval(AbsTaskRetrieval):
    """Retrieval with many positives per query, which are ranked down to R, the number of a query's positives."""

    def dataset_transform(self, num_proc: int | None = None) -> None:
        """Refuse images without photographs; without an input, models would fail later or encode nothing."""
        for subset, splits in self.dataset.items():
            parts = zip(subset.split("-")[-1].split("2"), ("queries", "corpus"), strict=True)
            for part in [part for modality, part in parts if modality == "i"]:
                if any("image" not in sides[part].column_names for sides in splits.values()):
                    raise ValueError(
                        f"{self.metadata.name} ranks images, and {_PATH} was built without photographs. Build it again: "
                        f"cxc-eccv build --layout mteb --output {_PATH} --images val2014"
                    )

    def task_specific_scores(
        self,
        scores: dict[str, dict[str, float]],
        qrels: dict[str, dict[str, int]],
        results: dict[str, dict[str, float]],
        hf_split: str,
        hf_subset: str,
    ) -> dict[str, float]:
        """mAP@R and R-Precision; of documents with equal scores, positives rank last."""
        precisions = []
        average_precisions = []
        for query, judged in qrels.items():
            positives = {document for document, score in judged.items() if score > 0}
            found = results[query]
            ranked = sorted(found, key=lambda document: (-found[document], document in positives))
            hits = np.array([document in positives for document in ranked[: len(positives)]], dtype=float)
            precisions.append(hits.sum() / len(positives))
            average_precisions.append((hits * hits.cumsum() / np.arange(1, hits.size + 1)).sum() / len(positives))
        return {"map_at_r": float(np.mean(average_precisions)), "r_precision": float(np.mean(precisions))}


class _WithinOneModalityRetrieval(_CorrectedCOCORetrieval):
    """Every query is in the corpus, and is no candidate for itself."""

    ignore_identical_ids = True


def _metadata(name: str, subset: str, description: str, prompt: str) -> TaskMetadata:
    category = subset[-3:]
    modalities = {"i": "image", "t": "text"}
    is_cxc = subset.startswith("cxc")
    return TaskMetadata(
        name=name,
        description=description,
        reference="https://arxiv.org/abs/2004.15020" if is_cxc else "https://arxiv.org/abs/2204.03359",
        dataset={"path": _PATH, "revision": _REVISION},
        type="Retrieval" if category == "t2t" else "Any2AnyRetrieval",
        category=category,
        modalities=list(dict.fromkeys(modalities[side] for side in category[::2])),
        eval_splits=["test"],
        eval_langs={subset: ["eng-Latn"]},
        main_score="hit_rate_at_1" if is_cxc else "map_at_r",
        date=("2014-01-01", "2020-12-31") if is_cxc else ("2014-01-01", "2022-12-31"),
        domains=["Scene", "Written"],
        task_subtypes=["Image Text Retrieval"] if category in {"i2t", "t2i"} else [],
        license="cc-by-4.0",
        annotations_creators="human-annotated",
        dialect=[],
        sample_creation="found",
        bibtex_citation=_COCO + _CXC if is_cxc else _ECCV + _COCO,  # by their keys, as mteb sorts them
        prompt={"query": prompt},
    )


class ECCVCaptionI2TRetrieval(_CorrectedCOCORetrieval):
    metadata = _metadata(
        "ECCVCaptionI2TRetrieval",
        "eccv_caption-i2t",
        "Retrieve all captions that describe an image of MS-COCO, as people verified them among the captions that "
        "models proposed.",
        "Find an image caption describing the following image.",
    )


class ECCVCaptionT2IRetrieval(_CorrectedCOCORetrieval):
    metadata = _metadata(
        "ECCVCaptionT2IRetrieval",
        "eccv_caption-t2i",
        "Retrieve all images of MS-COCO that a caption describes, as people verified them among the images that "
        "models proposed.",
        "Find an image that matches the given caption.",
    )


class CxCI2TRetrieval(_CorrectedCOCORetrieval):
    metadata = _metadata(
        "CxCI2TRetrieval",
        "cxc-i2t",
        "Retrieve captions for an image of MS-COCO: its own, and those that people rated as describing it.",
        "Find an image caption describing the following image.",
    )


class CxCT2IRetrieval(_CorrectedCOCORetrieval):
    metadata = _metadata(
        "CxCT2IRetrieval",
        "cxc-t2i",
        "Retrieve images of MS-COCO for a caption: its own, and those that people rated as described by it.",
        "Find an image that matches the given caption.",
    )


class CxCT2TRetrieval(_WithinOneModalityRetrieval):
    metadata = _metadata(
        "CxCT2TRetrieval",
        "cxc-t2t",
        "Retrieve captions for a caption of MS-COCO: those of the same image, and those that people rated as similar.",
        "Retrieve semantically similar text.",
    )


class CxCI2IRetrieval(_WithinOneModalityRetrieval):
    metadata = _metadata(
        "CxCI2IRetrieval",
        "cxc-i2i",
        "Retrieve images of MS-COCO for an image: those that people rated as similar.",
        "Retrieve images of a similar scene.",
    )
