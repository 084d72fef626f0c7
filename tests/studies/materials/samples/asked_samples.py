"""Sheets of questions on the sample, and the records of somebody who answers all of them."""

import pyarrow as pa

from cxc_eccv.studies.asking.questions import KnownPairs, build_sheets

QUESTION = ("questionnaire", "sheet", "pair_id", "image_id", "caption_id", "caption")
"""Keys of a record that people must not change."""


def sample_sheets(library, number=5, *, size=3, start=0):
    """Sheets of as many candidates, which are no links of COCO."""
    content = library.split("test")
    images, captions = (ids[start::4][:number] for ids in (content.image_ids, content.caption_ids[::-1]))
    pairs = pa.table({"image_id": images, "caption_id": captions})
    return build_sheets(pairs, KnownPairs(content), size=size)


def records_of(asked, worker="w1", said=(("yes", {}),)):
    """A record for each question of a questionnaire, with these answers and details in turn."""
    questions = [(asked.first + place, own) for place, sheet in enumerate(asked.sheets) for own in sheet]
    return [
        {
            "questionnaire": asked.id,
            "sheet": number,
            **{name: getattr(own, name) for name in QUESTION[2:]},
            "worker": worker,
            "answer": said[place % len(said)][0],
            "details": said[place % len(said)][1],
            "remark": "",
            "seconds": 4.5,
        }
        for place, (number, own) in enumerate(questions)
    ]
