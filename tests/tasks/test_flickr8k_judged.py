"""Tasks of human judgments on real data equal slow loops."""

import numpy as np
import pytest

from cxc_eccv.evaluation import evaluate
from cxc_eccv.judgments.flickr8k import read_votes
from cxc_eccv.runs import EmbeddingsRun, ScoresRun
from cxc_eccv.sources.readers import SUGARCREPE_PP_PARTS, read_sugarcrepe_pp, read_thumb
from cxc_eccv.types import Embeddings

TASKS = ["flickr8k_human", "flickr8k_expert", "flickr8k_crowd"]


@pytest.fixture(scope="module")
def scores(real_library):
    """Seeded scores of all images and captions."""
    content = real_library.flickr8k_split("test")
    values = np.random.default_rng(0).standard_normal((content.image_ids.size, content.caption_ids.size))
    return ScoresRun(content.image_ids, content.caption_ids, values.astype(np.float32))


def test_what_is_found_among_the_first_ten_is_counted(real_library, scores):
    report = evaluate(scores, TASKS, data_dir=real_library)
    votes = read_votes(real_library)
    asked = np.unique(votes.captions)
    columns = np.flatnonzero(np.isin(scores.caption_ids, asked))
    said = dict(
        zip(
            zip(votes.images.tolist(), votes.captions.tolist(), strict=True),
            (votes.yes - votes.no).tolist(),
            strict=True,
        )
    )
    owners = real_library.flickr8k_split("test").caption_image_ids
    judged, found = [], []
    for row, image in enumerate(scores.image_ids.tolist()):
        best = columns[np.argsort(-scores.scores[row, columns], kind="stable")[:10]]
        names = [
            (caption, owners[place] == image)
            for place, caption in zip(best, scores.caption_ids[best].tolist(), strict=True)
        ]
        judged.append(np.mean([own or said.get((image, caption), 0) != 0 for caption, own in names]))
        found.append(np.mean([not own and said.get((image, caption), 0) > 0 for caption, own in names]))
    assert report.scores["flickr8k_human/i2t/judged_at_10"] == pytest.approx(np.mean(judged))
    assert report.scores["flickr8k_human/i2t/false_negatives_at_10"] == pytest.approx(np.mean(found))
    assert {result.task for result in report.results} == set(TASKS)
    assert all(result.low <= result.value <= result.high for result in report.results)
    whole = evaluate(scores, "flickr8k", data_dir=real_library)
    assert not {result.task for result in whole.results} & set(TASKS)


def test_sugarcrepe_pp_equals_its_papers_two_rules(real_library):
    random, further, expected = np.random.default_rng(3), {}, {}
    known = real_library.karpathy("test").image_ids
    tables = {part: real_library.read(f"sugarcrepe_pp_{part}", read_sugarcrepe_pp) for part in SUGARCREPE_PP_PARTS}
    assert sum(table.num_rows for table in tables.values()) == 4_757
    shown = np.unique(np.concatenate([np.asarray(table["image_id"]) for table in tables.values()]))
    in_test = sum(int(np.isin(np.asarray(table["image_id"]), known).sum()) for table in tables.values())
    assert in_test == 559
    images = random.standard_normal((shown.size, 6))
    for part, table in tables.items():
        ids = np.asarray(table["image_id"])
        first, second, wrong = random.standard_normal((3, ids.size, 6))
        names = ("image_ids", "caption_embeddings", "caption2_embeddings", "negative_embeddings")
        further |= {
            f"sugarcrepe_pp_{part}_{name}": value
            for name, value in zip(names, (ids, first, second, wrong), strict=True)
        }
        of_image = images[np.searchsorted(shown, ids)]
        first, second, wrong, of_image = (
            each / np.linalg.norm(each, axis=1, keepdims=True) for each in (first, second, wrong, of_image)
        )
        against = (of_image * wrong).sum(axis=1)
        both = ((of_image * first).sum(axis=1) > against) & ((of_image * second).sum(axis=1) > against)
        alike = (first * second).sum(axis=1)
        apart = (alike > (first * wrong).sum(axis=1)) & (alike > (second * wrong).sum(axis=1))
        expected |= {f"sugarcrepe_pp/{part}": both.mean(), f"sugarcrepe_pp_text/text_{part}": apart.mean()}
    text = Embeddings(real_library.karpathy("test").caption_ids[:1], np.ones((1, 6)))
    run = EmbeddingsRun(Embeddings(shown, images), text, similarity="cosine", further=further)
    report = evaluate(run, ["sugarcrepe_pp", "sugarcrepe_pp_text"], data_dir=real_library)
    for key, value in expected.items():
        assert report.scores[f"{key}/pairwise_accuracy"] == pytest.approx(value)


def letters(text):
    return "".join(letter for letter in text.lower() if letter.isalnum())


def test_thumb_audits_captions_of_coco(real_library):
    table = real_library.read("thumb", read_thumb)
    rows = [row for row in table.to_pylist() if row["system"] == "Human"]
    texts = {}
    for row in real_library.captions("test").to_pylist():
        texts.setdefault(row["image_id"], set()).add(letters(row["text"]))
    assert (table.num_rows, len(rows), len({row["image_id"] for row in rows})) == (2_500, 500, 500)
    assert sum(row["precision"] <= 3 for row in rows) == 11
    assert all(letters(row["caption"]) in texts[row["image_id"]] for row in rows)
    vectors = np.random.default_rng(4).standard_normal((2_500, 4))
    images = real_library.karpathy("test").image_ids
    further = {"thumb_ids": np.arange(2_500), "thumb_embeddings": vectors}
    run = EmbeddingsRun(
        Embeddings(images, np.random.default_rng(5).standard_normal((images.size, 4))), None, further=further
    )
    report = evaluate(run, "thumb", data_dir=real_library)
    assert abs(report.scores["thumb/precision/kendall_tau_c"]) < 0.1
