"""A small mirror folder in which every leak that training data can have is planted."""

import json
from pathlib import Path

COCO = {
    "train": {3: ["a cat on a mat", "a cat sits"]},
    "val": {1: ["a man rides a horse", "a rider on a horse", "someone on a horse"]},
    "test": {2: ["Two dogs run!", "dogs in a field", "two dogs"]},
}
FLICKR30K = {
    "train": {100: ["a woman sings", "a singer"]},
    "val": {200: ["a boy jumps", "a jump"]},
    "test": {300: ["a girl reads a book", "reading"]},
}
STSB = [
    ("4.0", "A plane takes off.", "An air plane is taking off."),
    ("3.0", "a bird", "a small bird"),
    ("2.999", "a bird", "a fish"),
    ("5.0", "two DOGS, run", "dogs are running"),  # words of a caption of coco/test
    ("1.0", "a kite", "A girl reads a book ."),  # of flickr30k/test
    ("4.5", "Someone on a horse.", "a horse with someone on it"),  # of coco/val
]
SNLI_VE = [
    ("100.jpg", "a woman", "entailment"),
    ("100.jpg", "a man", "contradiction"),
    ("300.jpg", "a girl", "entailment"),  # photograph of flickr30k/test
    ("100.jpg", "Two dogs run", "neutral"),  # words of a caption of coco/test
    ("400.jpg", "a tree", "neutral"),  # a photograph whose captions are not at hand
    ("100.jpg", "nobody agreed", "-"),
]
ENTRIES = ("karpathy_coco", "flickr30k", "stsb_train", "snli_ve_train", "entailment_val", "sits_val", "sts_val")


def karpathy(splits, **prefix):
    """Splits to images to captions, in the layout of dataset_coco.json; captions are numbered image by image."""
    images = []
    for split, content in splits.items():
        for number, captions in content.items():
            name = f"COCO_val2014_{number:012}.jpg" if prefix else f"{number}.jpg"
            sentences = [{"raw": text, "sentid": number * 10 + place} for place, text in enumerate(captions)]
            cocoid = {"cocoid": number} if prefix else {}
            images.append({"filename": name, "split": split, "sentences": sentences} | cocoid | prefix)
    return json.dumps({"images": images})


def write_mirror(folder: Path, *, without: tuple[str, ...] = ()) -> Path:
    """The folder, with a catalog of its own that lists what is in it."""
    texts = {
        "coco/dataset_coco.json": karpathy(COCO, filepath="val2014"),
        "flickr/dataset_flickr30k.json": karpathy(FLICKR30K),
        "sts/stsb/sts-train.csv": "".join(
            f"main-captions\tMSRvid\t2012test\t{number:04}\t{score}\t{left}\t{right}\n"
            for number, (score, left, right) in enumerate(STSB)
        ),
        "entailment/snli_ve_train.jsonl": "".join(
            json.dumps({"Flickr30K_ID": image[:-4], "pairID": f"{number}", "gold_label": label, "sentence2": text})
            + "\n"
            for number, (image, text, label) in enumerate(SNLI_VE)
        ),
        "catalog.toml": 'edition = "tiny"\n'
        + "".join(f"[entries.{name}]\n" for name in ENTRIES if name not in without),
    }
    for place, text in texts.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")
    for name, place in (("flickr30k", "flickr/dataset_flickr30k.json"), ("karpathy_coco", "coco/dataset_coco.json")):
        if name in without:
            (folder / place).unlink()
    return folder
