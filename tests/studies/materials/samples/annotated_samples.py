"""Answers of people who differ, to pairs of the sample that two models proposed; and the report on them."""

import json

import numpy as np
import pyarrow as pa

from cxc_eccv.studies.annotation.annotation_report import Annotation, report_annotation
from cxc_eccv.studies.annotation.changes import LabelChange, LabelChanges
from cxc_eccv.studies.annotation.proposing import CANDIDATES
from cxc_eccv.studies.asking.answer_files import list_rows, tabulate
from cxc_eccv.studies.asking.questions import Question
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.sheet_quality import Checks, judge_sheets

NO_MODEL = "No models were given. cxc-eccv annotate report FOLDER MODELS... shows how the labels change their scores."
DETAILS = {
    "partially_yes": {"shortcomings": ["grammar"]},
    "mostly_no": {"shortcomings": ["wrong_description"], "errors": ["color"]},
}
OF_SCHEME = {
    "eccv": lambda yes, random: ["yes", "partially_yes"][random] if yes else ["no", "mostly_no"][random],
    "cxc": lambda yes, random: round((4.5 if yes else 1.0) + 0.25 * random, 2),
    "entailment": lambda yes, random: {"describes": yes or bool(random), "follows": yes},
}


def answer_row(scheme, sheet, worker, pair, role, answer, seconds=10.0, remark=""):
    """A row of the table of answers."""
    gain = scheme.compute_gain(answer)
    details = DETAILS.get(answer, {}) if scheme.name == "eccv" else {}
    image, caption = pair
    return {
        "sheet": sheet, "pair_id": f"{image}-{caption}", "image_id": image, "caption_id": caption, "role": role,
        "worker": worker, "answer": json.dumps(answer), "gain": gain, "positive": scheme.is_positive(gain),
        "details": json.dumps(details), "remark": remark, "seconds": seconds,
    }  # fmt: skip


def sample_answers(library, workers=("ann", "ben", "cleo"), scheme="eccv", *, sheets=3, size=6, seed=0, remark=""):
    """(A,) answers of workers to sheets of candidates with two known pairs each; the last worker answers at random."""
    own = schemes()[scheme]
    random = np.random.default_rng(seed)
    content = library.split("test")
    owners = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    images = content.image_ids.tolist()
    captions = content.caption_ids.tolist()
    rows = []
    for sheet in range(sheets):
        pairs = [
            (images[(7 * sheet + place) % len(images)], captions[37 * sheet + 11 * place]) for place in range(size)
        ]
        known = captions[-1 - sheet]
        for worker in workers:
            careless = worker == workers[-1] and len(workers) > 1
            for place, pair in enumerate(pairs):
                yes = bool(random.integers(2)) if careless else (place + sheet) % 3 == 0 or random.random() < 0.1
                answer = OF_SCHEME[scheme](yes, int(random.integers(2)))
                rows.append(
                    answer_row(own, sheet, worker, pair, "candidate", answer, remark=remark if place == 1 else "")
                )
            for role, pair, wanted in (
                ("known positive", (owners[known], known), True),
                ("known negative", (images[sheet], known), False),
            ):
                yes = wanted != (careless and sheet > 0 and (wanted or sheet > 1))
                rows.append(answer_row(own, sheet, worker, pair, role, OF_SCHEME[scheme](yes, 0)))
    return tabulate(rows)


def sample_candidates(answers, models=("clip", "vsrn")):
    """The pairs that the answers are about, each proposed by the first model, every other one by both."""
    pairs = sorted({(row["image_id"], row["caption_id"]) for row in list_rows(answers) if row["role"] == "candidate"})
    rows = [
        {
            "image_id": image, "caption_id": caption, "strategy": "eccv", "priority": None, "known": [],
            "proposals": [
                {"model": model, "direction": "i2t", "rank": 1 + place % 6}
                for model in models[: 1 + place % 2] if place % 5
            ],
        }
        for place, (image, caption) in enumerate(pairs)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=CANDIDATES)


def sample_annotation(
    library, *, scheme="eccv", models=("clip", "vsrn"), changes=NO_MODEL, checks=None, captions=None, **options
):
    """A report on answers of the sample."""
    answers = sample_answers(library, scheme=scheme, **options)
    content = library.split("test")
    texts = dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True)) | (
        captions or {}
    )
    files = dict(zip(content.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True))
    names = ("pair_id", "image_id", "caption_id")
    questions = [
        Question(name, image, caption, files[image], " ".join(texts[caption].split()), "candidate", ())
        for name, image, caption in answers[[*names]].itertuples(index=False)
    ]
    return report_annotation(
        Annotation(
            name="mine",
            scheme=schemes()[scheme],
            answers=answers,
            judged=judge_sheets(answers, checks),
            candidates=sample_candidates(answers, models),
            sheets=[questions, [], [], []],
            changes=changes,
            checks=checks or Checks(),
            folder="labels of mine",
        )
    )


HOSTILE = (
    "</script></td><img src=x onerror=alert(1)><script>alert(2)</script> | `a` [b](javascript:alert(3)) & \x1b[31m"
)
CHANGES = LabelChanges(
    ("coco",),
    ("coco", "mine"),
    "test",
    (HOSTILE, "b"),
    0,
    1000,
    0.95,
    (
        LabelChange(HOSTILE, "coco_5k", "i2t", "recall_at_1", 0.5, 0.6, 0.1, 0.05, 0.15, 1, 2, 3, 0, 60, 60),
        LabelChange("b", "coco_5k", "i2t", "recall_at_1", 0.4, 0.7, 0.3, 0.1, 0.4, 2, 1, 9, 0, 60, 60),
    ),
    {HOSTILE: {"coco_5k/t2i": f"no {HOSTILE}"}},
)


def hostile_annotation(library):
    """A report in which everything that people can type would act."""
    printable = HOSTILE.replace("\x1b", "")
    captions = dict.fromkeys(library.split("test").caption_ids.tolist(), HOSTILE)
    return sample_annotation(
        library,
        workers=(f"ann {printable}", f"ben {printable}"),
        models=(HOSTILE, f"other {HOSTILE}"),
        remark=f"{HOSTILE}\nsecond line",
        captions=captions,
        changes=CHANGES,
    )
