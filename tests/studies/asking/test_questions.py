"""Sheets of questions: what they hold, that they do not change, and what is refused."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.studies.asking.questions import (
    CANDIDATE,
    NEGATIVE,
    POSITIVE,
    KnownPairs,
    build_practice,
    build_sheets,
    pair_id,
)


@pytest.fixture(scope="module")
def content(sample_library):
    return sample_library.split("test")


def some_pairs(content, number=50, seed=0):
    random = np.random.default_rng(seed)
    pairs = {
        (int(random.choice(content.image_ids)), int(random.choice(content.caption_ids))) for _ in range(2 * number)
    }
    return sorted(pairs)[:number]


def table(pairs):
    images, captions = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.table({"image_id": pa.array(images, pa.int64()), "caption_id": pa.array(captions, pa.int64())})


def arrays(pairs):
    return tuple(np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T)


def is_among(pairs):
    return lambda *ids: np.array([pair in pairs for pair in zip(*map(np.ndarray.tolist, ids), strict=True)])


def sheets_of(content, *, size=18, seed=0, **known_pairs):
    return build_sheets(table(some_pairs(content)), KnownPairs(content, **known_pairs), size=size, seed=seed)


def test_known_pairs_have_their_role_and_any_place(content):
    """They share no image and no caption with the candidates."""
    owners = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    places = Counter()
    for seed in range(30):
        sheets = sheets_of(content, seed=seed)
        assert [len(sheet) for sheet in sheets] == [20, 20, 50 - 36 + 2]
        asked = [(own.image_id, own.caption_id) for sheet in sheets for own in sheet if own.role == CANDIDATE]
        assert sorted(asked) == some_pairs(content)
        for sheet in sheets:
            assert sorted({own.role for own in sheet}) == sorted([CANDIDATE, POSITIVE, NEGATIVE])
            for place, question in enumerate(sheet):
                if question.role != CANDIDATE:
                    assert (owners[question.caption_id] == question.image_id) is (question.role == POSITIVE)
                    places[place] += 1
            known = [own for own in sheet if own.role != CANDIDATE]
            others = [own for own in sheet if own.role == CANDIDATE]
            assert not {own.image_id for own in known} & {own.image_id for own in others}
            assert not {own.caption_id for own in known} & {own.caption_id for own in others}
            assert known[0].image_id != known[1].image_id
    assert len(places) == 20


def test_known_negatives_are_far_and_never_positive(content):
    every = {(image, caption) for image in content.image_ids.tolist() for caption in content.caption_ids.tolist()}
    far = {pair for place, pair in enumerate(sorted(every)) if place % 40 == 0}
    for excluded in ({"positive": arrays(every - far)}, {"is_near": is_among(every - far)}):
        for sheet in sheets_of(content, **excluded):
            (negative,) = [own for own in sheet if own.role == NEGATIVE]
            assert (negative.image_id, negative.caption_id) in far


def test_seed_determines_the_order_of_questions(content):
    assert sheets_of(content, seed=3) == sheets_of(content, seed=3)
    first, second = ([own.pair_id for own in sheets_of(content, seed=seed)[0]] for seed in (3, 4))
    assert first != second
    assert pair_id(7, 70, "A dog.") != pair_id(7, 70, "A cat.")  # another text, another id
    assert len({pair_id(7, 70, "a"), pair_id(77, 0, "a"), pair_id(70, 7, "a")}) == 3


def test_what_cannot_be_asked_is_refused(content):
    with pytest.raises(InvalidOption, match="size"):
        sheets_of(content, size=0)
    every = {(image, caption) for image in content.image_ids.tolist() for caption in content.caption_ids.tolist()}
    with pytest.raises(DataError, match="no known negative is left"):
        sheets_of(content, is_near=is_among(every))


def test_no_pair_is_asked_twice(content):
    """A candidate is never used as a known pair either."""
    every = sorted((image, caption) for image in content.image_ids.tolist() for caption in content.caption_ids.tolist())
    candidates = every[::7]
    sheets = build_sheets(table(candidates), KnownPairs(content), size=30)
    asked = [(own.image_id, own.caption_id) for sheet in sheets for own in sheet]
    assert len(set(asked)) == len(asked) == len(candidates) + 2 * len(sheets)


def test_captions_do_not_reveal_a_known_positive(content):
    """The image's other captions stand beside every question about it."""
    own = Counter(content.caption_image_ids.tolist())
    texts = dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True))
    owners = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    for question in (asked for sheet in sheets_of(content, size=5) for asked in sheet):
        assert len(question.captions) == own[question.image_id] - 1
        if owners[question.caption_id] == question.image_id:
            others = [texts[id_] for id_, image in owners.items() if image == question.image_id]
            others.remove(texts[question.caption_id])
            assert sorted(question.captions) == sorted(" ".join(text.split()) for text in others)


@pytest.mark.parametrize("side", ["image", "caption"])
def test_two_images_and_two_captions_are_asked_about(content, side):
    ids = content.image_ids if side == "image" else content.caption_ids
    first = ids[:12]
    second = ids[12:24]
    rated = ((ids[24:34], ids[34:44]), (ids[44:52], ids[52:60]))
    pairs = pa.table({"image_id": first, "caption_id": second})
    sheets = build_sheets(pairs, KnownPairs(content, (side, side), rated=rated), size=6)
    assert [len(sheet) for sheet in sheets] == [8, 8]
    texts = dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True))
    files = dict(zip(content.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True))
    for own in (own for sheet in sheets for own in sheet):
        shown = (own.file_name, own.other) if side == "image" else (own.caption, own.other)
        known = files if side == "image" else {name: " ".join(text.split()) for name, text in texts.items()}
        assert shown == (known[own.image_id], known[own.caption_id])
    alone = build_sheets(pairs, KnownPairs(content, (side, side)), size=6)  # nothing is known
    assert {own.role for sheet in alone for own in sheet} == {CANDIDATE}


def test_practice_pairs_are_never_asked(content):
    """Practice alternates between a caption of the image and one of another image."""
    owners = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    own = list(zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True))
    found = build_practice(KnownPairs(content), 5, set(own[::2]))
    assert [one.role for one in found] == [POSITIVE, NEGATIVE] * 2 + [POSITIVE]
    assert all((owners[one.caption_id] == one.image_id) is (one.role == POSITIVE) for one in found)
    assert not {(one.image_id, one.caption_id) for one in found} & set(own[::2])
    assert len({one.pair_id for one in found}) == 5


def test_known_pairs_avoid_invalid_images_and_captions(content):
    images = content.image_ids[::2]
    captions = content.caption_ids[::2]
    asked = [
        own for seed in range(5) for sheet in sheets_of(content, seed=seed, invalid=(images, captions)) for own in sheet
    ]
    known = [own for own in asked if own.role != CANDIDATE]
    assert not {own.image_id for own in known} & set(images.tolist())
    assert not {own.caption_id for own in known} & set(captions.tolist())
    assert {own.image_id for own in asked} & set(images.tolist())
