"""People's answers in label files: what an upload publishes of them, and labels without them."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq

from cxc_eccv.hub.card import read_card

ANSWERS_COLUMN = "said"
"""The column of ``annotate merge`` with each person's accepted answer about a pair, under a pseudonym."""


def count_answers(files: Mapping[str, Path]) -> dict[str, str]:
    """File of labels to a sentence on the answers in it, for those that have answers."""
    sentences = {}
    for path, file in files.items():
        if ANSWERS_COLUMN not in pq.read_schema(file).names:
            continue
        rows = pq.read_table(file, columns=[ANSWERS_COLUMN])[ANSWERS_COLUMN].to_pylist()
        answers = list(chain.from_iterable(rows))
        # p1, p2 ... p10: by length first.
        people = sorted({str(answer["person"]) for answer in answers}, key=lambda name: (len(name), name))
        shown = ", ".join(people) if len(people) < 6 else f"{people[0]} to {people[-1]}"
        sentences[path] = f"{path} has {len(answers):,} answers of {len(people):,} people, pair by pair, called {shown}"
    return sentences


def drop_answers(file: Path) -> bytes:
    """A label file without people's answers."""
    buffer = BytesIO()
    table = pq.read_table(file)
    pq.write_table(table.drop_columns([ANSWERS_COLUMN]), buffer, compression="zstd", write_page_checksum=True)
    return buffer.getvalue()


def drop_answers_in_card(card: str, where: str) -> str:
    """A generated card of labels without what it says of the column of answers."""
    content = read_card(card, where)
    lines = content.text.split("\n")
    content.text = "\n".join(
        line for line in lines if not line.startswith((f"| `{ANSWERS_COLUMN}` |", f"`{ANSWERS_COLUMN}` "))
    )
    for info in content.data.get("dataset_info") or ():
        info["features"] = [feature for feature in info["features"] if feature["name"] != ANSWERS_COLUMN]
        # datasets identifies its cache of a local folder by the front matter.
        info["description"] = f"{info.get('description', '')}, without answers".lstrip(", ")
    return str(content)
