"""What a model was trained on, according to its card and its ``data_config.json``."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import yaml
from huggingface_hub import hf_hub_download, metadata_load, try_to_load_from_cache

from cxc_eccv.types.model_options import name_collections

CARD, DATA_CONFIG = "README.md", "data_config.json"

CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#{1,6})\s+(.*)$")
TRAINED = re.compile(r"\b(pre-?|fine-?)?train", re.IGNORECASE)
OTHER_USE = re.compile(r"evaluat|zero-?shot|\b(not|without|never)\b", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n")


def read_training_data(source: str, revision: str | None = None) -> list[str]:
    """The data sets that a folder, or a model loaded from the Hub, says it was trained on; empty if it says nothing.

    From the metadata of the card all; from its text and from ``data_config.json`` COCO and Flickr30k.
    """
    names, passages = [], ""
    if (card := _find_file(source, CARD, revision)) is not None:
        with suppress(ValueError, yaml.YAMLError):
            listed = (metadata_load(card) or {}).get("datasets") or []
            names = [str(name) for name in ([listed] if isinstance(listed, str) else listed)]
        passages = find_passages(card.read_text(encoding="utf-8", errors="replace"))
    if (config := _find_file(source, DATA_CONFIG, revision)) is not None:
        passages += config.read_text(encoding="utf-8", errors="replace")
    known = name_collections(names)
    return names + [name for name in name_collections([passages]) if name not in known]


def _find_file(source: str, name: str, revision: str | None) -> Path | None:
    if (folder := Path(source)).is_dir():
        return folder / name if (folder / name).is_file() else None
    with suppress(OSError, ValueError):  # no such file or model on the Hub, or no answer
        # For the name of a model in memory, the Hub would be asked until all retries have failed.
        if isinstance(try_to_load_from_cache(source, "config.json", revision=revision), str):
            return Path(hf_hub_download(source, name, revision=revision))
    return None


def find_passages(card: str) -> str:
    """What a card says of training: all below headings that name it, and elsewhere the sentences that do.

    Example:
        >>> find_passages("Scores on COCO. It was trained on Flickr30k.")
        'It was trained on Flickr30k.'
    """
    passages: list[str] = []
    elsewhere: list[str] = []
    level = 0  # of the heading that names training, 0 outside of its section
    for line in CODE.sub("", card).splitlines():
        heading = HEADING.match(line)
        if heading and (not level or len(heading[1]) <= level):
            level = len(heading[1]) if TRAINED.search(heading[2]) else 0
        (passages if level and not heading else elsewhere).append("\n" if heading else line)
    sentences = SENTENCE.split("\n".join(elsewhere))
    told = [sentence for sentence in sentences if TRAINED.search(sentence) and not OTHER_USE.search(sentence)]
    return "\n".join([*told, *passages])
