"""The question that a generative model answers with yes or no."""

from __future__ import annotations

import re

from cxc_eccv.errors import InvalidOption

OF_IMAGE = 'Does this caption describe the image? Caption: "{caption}" Answer with yes or no.'

OF_CAPTIONS = (
    'People described an image so: "{captions}" Does this caption describe the same image? Caption: "{caption}" Answer '
    "with yes or no."
)

FIELD = re.compile(r"\{(\w*)\}")


def check_question(question: str) -> None:
    """Raise InvalidOption unless a question has the place of the caption, and no unknown place.

    Example:
        >>> check_question("Is it {caption}?")
        >>> check_question("Is it {text}?")
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: question 'Is it {text}?': write {caption} once, and {captions} ...
    """
    fields = FIELD.findall(question)
    if fields.count("caption") != 1 or set(fields) - {"caption", "captions"}:
        raise InvalidOption(
            f"question {question!r:.200}: write {{caption}} once, and {{captions}} for the captions of the image if "
            "they may be seen"
        )


def fill(question: str, captions: str, caption: str) -> str:
    """The question about one pair; braces within captions stay as they are.

    Example:
        >>> fill("{captions} So: {caption}?", "a {caption}", "a dog")
        'a {caption} So: a dog?'
    """
    texts = {"caption": caption, "captions": captions}
    return FIELD.sub(lambda match: texts[match[1]], question)
