"""Row numbers and swapped sides get one sentence, and the line of Python in it gives the numbers of the right ids."""

from dataclasses import replace

import numpy as np
import pytest

from cxc_eccv.errors import MissingIds, UnknownIds
from cxc_eccv.evaluation.mistaken_ids import describe_mistaken_ids
from cxc_eccv.runs import DirectionScoresRun, EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.types import Embeddings


@pytest.fixture
def arrays(sample_library):
    split = sample_library.split("test")
    random = np.random.default_rng(0)
    return {
        "image_ids": split.image_ids,
        "image_embeddings": random.standard_normal((60, 4)).astype(np.float32),
        "caption_ids": split.caption_ids,
        "caption_embeddings": random.standard_normal((300, 4)).astype(np.float32),
    }


def make_run(arrays):
    if "scores" in arrays:
        return ScoresRun(arrays["image_ids"], arrays["caption_ids"], arrays["scores"])
    if "scores_t2i" in arrays:
        ids = arrays["image_ids"], arrays["caption_ids"]
        return DirectionScoresRun(*ids, arrays["scores_i2t"], arrays["scores_t2i"])
    sides = (Embeddings(arrays[f"{side}_ids"], arrays[f"{side}_embeddings"]) for side in ("image", "caption"))
    return EmbeddingsRun(*sides)


def repeat_images(arrays, split):
    """One row for every caption, with its image."""
    rows = [split.image_ids.tolist().index(image) for image in split.caption_image_ids.tolist()]
    for name in arrays.keys() & {"image_embeddings", "scores", "scores_i2t"}:
        arrays[name] = arrays[name][rows]
    if "scores_t2i" in arrays:
        arrays["scores_t2i"] = arrays["scores_t2i"][:, rows]


def number_from(start, *sides):
    def change(arrays, _split):
        for side in sides:
            arrays[f"{side}_ids"] = np.arange(start, start + arrays[f"{side}_ids"].size)

    return change


def shuffle_numbered_rows(arrays, _split):
    arrays["caption_ids"] = np.random.default_rng(1).permutation(300)
    arrays["caption_embeddings"] = arrays["caption_embeddings"][arrays["caption_ids"]]


def number_repeated_images(arrays, split):
    repeat_images(arrays, split)
    arrays["image_ids"] = np.arange(300)


def use_captions_as_images(arrays, split):
    repeat_images(arrays, split)
    arrays["image_ids"] = arrays["caption_ids"]


def swap_ids(arrays, _split):
    arrays["image_ids"], arrays["caption_ids"] = arrays["caption_ids"], arrays["image_ids"]


MISTAKES = {
    "from 0": number_from(0, "image", "caption"),
    "from 1": number_from(1, "image", "caption"),
    "captions alone": number_from(0, "caption"),
    "repeated images": number_repeated_images,
    "captions as images": use_captions_as_images,
}


def mend(arrays, message):
    """The arrays after the line of Python in the message, run as it is written."""
    mended = dict(arrays)
    exec(message.splitlines()[-1].strip(), mended)
    return mended


@pytest.mark.parametrize("form", ["embeddings", "scores", "scores per direction"])
@pytest.mark.parametrize("change", MISTAKES.values(), ids=MISTAKES)
def test_line_gives_the_right_numbers(change, form, arrays, sample_library, report_of):
    if form != "embeddings":
        scores = arrays.pop("image_embeddings") @ arrays.pop("caption_embeddings").T
        arrays |= {"scores": scores} if form == "scores" else {"scores_i2t": scores, "scores_t2i": -scores.T}
    right = report_of(make_run(arrays), confidence=None).scores
    change(arrays, sample_library.split("test"))
    with pytest.raises(MissingIds) as refused:
        report_of(make_run(arrays))
    assert len(str(refused.value).splitlines()) == 2
    mended = mend(arrays, str(refused.value))
    assert report_of(make_run(mended), confidence=None).scores == right


def test_row_numbers_may_be_in_any_order(arrays, report_of):
    right = report_of(make_run(arrays), confidence=None).scores
    shuffle_numbered_rows(arrays, None)
    with pytest.raises(MissingIds, match=r"the caption ids \(0 to 299\) are row numbers") as refused:
        report_of(make_run(arrays))
    assert report_of(make_run(mend(arrays, str(refused.value))), confidence=None).scores == right


@pytest.mark.parametrize("form", ["arrays", "rankings"])
def test_swapped_sides_get_one_sentence(form, arrays, report_of):
    swapped = dict(arrays)
    swap_ids(swapped, None)
    swapped["image_embeddings"] = arrays["caption_embeddings"]
    swapped["caption_embeddings"] = arrays["image_embeddings"]
    run = make_run(swapped)
    if form == "rankings":
        i2t = dict.fromkeys(arrays["image_ids"].tolist(), arrays["caption_ids"])
        t2i = dict.fromkeys(arrays["caption_ids"].tolist(), arrays["image_ids"])
        run = RankingsRun.from_dicts(i2t=t2i, t2i=i2t)
    with pytest.raises(MissingIds, match="images and captions are swapped") as refused:
        report_of(run)
    names = {"i2t": "of captions", "t2i": "of images"} if form == "rankings" else swapped
    mended = mend(names, str(refused.value))
    if form == "rankings":
        assert (mended["i2t"], mended["t2i"]) == ("of images", "of captions")
    else:
        np.testing.assert_array_equal(mended["image_ids"], arrays["image_ids"])
        np.testing.assert_array_equal(mended["caption_ids"], arrays["caption_ids"])


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_rankings_of_the_other_direction_are_named(direction, arrays, report_of):
    queries, items = (arrays[f"{side}_ids"] for side in ("image", "caption"))
    if direction == "i2t":
        queries, items = items, queries
    run = dict.fromkeys(queries.tolist(), items)
    other = direction[::-1]
    with pytest.raises(MissingIds, match=f"are of {other}: .* swapped; give them as {other}: .*--direction {other}"):
        report_of(run, direction=direction)
    assert report_of(run, direction=other, confidence=None).scores


@pytest.mark.parametrize("tasks", ["all", "coco_5k"])
def test_row_numbers_are_refused_where_items_may_lack(tasks, arrays, report_of):
    """Captions 39 and 82 of the sample are row numbers too."""
    number_from(0, "caption")(arrays, None)
    with pytest.raises(UnknownIds, match="are row numbers"):
        report_of(make_run(arrays), tasks, allow_missing=True)


def test_more_rows_than_the_split_get_no_line(arrays, report_of):
    arrays["caption_ids"] = np.arange(301)
    arrays["caption_embeddings"] = np.ones((301, 4), np.float32)
    with pytest.raises(MissingIds, match="the test split of COCO has 60 images and 300 captions") as refused:
        report_of(make_run(arrays))
    assert "split.caption_ids" not in str(refused.value)


def test_right_ids_from_1_to_n_stand(sample_library):
    """The ids of the split itself are 1 to N; a run that lacks the last of them is told which."""
    split = sample_library.split("test")
    images = split.images.set_column(0, "image_id", [np.arange(1, 61)])
    captions = split.captions.set_column(0, "caption_id", [np.arange(1, 301)])
    numbered = replace(split, images=images, captions=captions)
    run = ScoresRun(np.arange(1, 61), np.arange(1, 300), np.zeros((60, 299), np.float32))
    assert describe_mistaken_ids(run, numbered) is None
