"""A world of judgments small enough to check by hand, as raw files."""

import json
from pathlib import Path

from cxc_eccv.sources.library import Library


def caption(number):
    return f"COCO_val2014:sentid:{number}"


def image(number):
    return f"COCO_val2014_{number:012d}.jpg"


class TinyWorld:
    """Images 1, 2, 3 of the test split with captions 10 n + 1 and 10 n + 2; every judgment is written here."""

    sts = ((11, 21, 4.0), (12, 31, 2.0))
    sis = ((1, 2, 2.4), (2, 1, 2.6), (1, 3, 1.0))
    sits = ((11, 1, 5.0), (12, 1, 2.9), (21, 1, 3.0), (31, 1, 1.0))
    entailment = ((1, 31, 0), (3, 11, 1), (3, None, 1))
    captions = {1: (11, 12), 2: (21, 22), 3: (31, 32)}  # noqa: RUF012 - a test sets its own
    categories = ()  # no file of instances; else (image, category) of 1 cat, 3 dog, 90 brush
    single = {}  # noqa: RUF012 - kind to single ratings, where the user has the file

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.eccv_i2t = {1: (11, 31), 2: (21,)}
        self.eccv_t2i = {21: (2, 1)}

    def write(self) -> Library:
        images = [
            {
                "filename": image(n),
                "filepath": "val2014",
                "cocoid": n,
                "split": "test",
                "sentences": [{"raw": f"text {number}", "sentid": number} for number in numbers],
            }
            for n, numbers in self.captions.items()
        ]
        for name in ("coco", "cxc", "eccv", "entailment"):
            (self.folder / name).mkdir()
        (self.folder / "coco/dataset_coco.json").write_text(json.dumps({"images": images}))
        for kind, names in (("sts", (caption, caption)), ("sis", (image, image)), ("sits", (caption, image))):
            self._ratings(kind, names, "", getattr(self, kind))
            if kind in self.single:
                self._ratings(kind, names, "_raw", self.single[kind])
        if self.categories:
            self._instances()
        for name, table in (("image_to_caption", self.eccv_i2t), ("caption_to_image", self.eccv_t2i)):
            (self.folder / f"eccv/eccv_{name}.json").write_text(json.dumps({str(q): v for q, v in table.items()}))
        lines = [
            {
                "image": image(i),
                "image_id": i,
                "hypothesis": f"text {h}" if h else "text 12 ",
                "caption_id": h,
                "label": v,
            }
            for i, h, v in self.entailment
        ]
        (self.folder / "entailment/entailment_test.jsonl").write_text("\n".join(map(json.dumps, lines)))
        return Library(self.folder, offline=True, allow_modified=True)

    def _ratings(self, kind, names, suffix, ratings):
        sides = {"sts": "caption1,caption2", "sis": "image1,image2", "sits": "caption,image"}[kind]
        method = {"sts": "c2c_isim", "sis": "i2i_csim", "sits": "c2i_intrasim"}[kind]
        rows = [f"{names[0](a)},{names[1](b)},{score},{method}" for a, b, score in ratings]
        text = "\n".join([f"{sides},agg_score,sampling_method", *rows])
        (self.folder / f"cxc/{kind}_test{suffix}.csv").write_text(text + "\n")

    def _instances(self):
        content = {
            "images": [{"id": n} for n in self.captions],
            "categories": [{"id": 1, "name": "cat"}, {"id": 3, "name": "dog"}, {"id": 90, "name": "brush"}],
            "annotations": [
                {"id": number, "image_id": n, "category_id": category}
                for number, (n, category) in enumerate(self.categories)
            ],
        }
        (self.folder / "coco/instances_val2014.json").write_text(json.dumps(content))
