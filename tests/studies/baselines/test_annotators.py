"""Light annotators: scorers of captions against slow loops over words, and models that follow what they are told."""

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from cxc_eccv.demo.bag_of_words import words
from cxc_eccv.errors import MissingIds, SourceMissing
from cxc_eccv.ranking.rank import pair_similarities
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.readers import LABELS_SCHEMA
from cxc_eccv.studies.baselines.annotators import SCORERS, fit_anew, place_images
from cxc_eccv.types import Embeddings, RatedPairs


def unit(vector):
    length = math.sqrt(sum(value**2 for value in vector.values()))
    return {key: value / length for key, value in vector.items()}


def cosine_of_mean(vectors, vector):
    mean = Counter()
    for own in vectors:
        mean.update(own)
    return sum(unit(mean).get(key, 0) * value for key, value in vector.items())


def bags(texts, weigh):
    """Each text as words with weights, of length 1."""
    if not weigh:
        return [unit(dict.fromkeys(words(text), 1.0)) for text in texts]
    holders = Counter(word for text in texts for word in set(words(text)))
    idf = {word: math.log((1 + len(texts)) / (1 + number)) + 1 for word, number in holders.items()}
    return [unit({word: n * idf[word] for word, n in Counter(words(text)).items()}) for text in texts]


@pytest.mark.parametrize("name", ["tfidf", "overlap"])
def test_scorers_of_captions_against_dicts_of_words(sample_library, name):
    content = sample_library.karpathy("test")
    run = SCORERS[name](content)
    vectors = bags(content.captions["text"].to_pylist(), weigh=name == "tfidf")
    assert run.image_ids.tolist() == content.image_ids.tolist()
    assert run.caption_ids.tolist() == content.caption_ids.tolist()
    for row in (0, 7, 59):
        own = [vectors[place] for place in np.flatnonzero(content.caption_image_ids == content.image_ids[row])]
        assert len(own) == 5
        expected = [cosine_of_mean(own, vector) for vector in vectors]
        np.testing.assert_allclose(run.scores[row], expected, atol=1e-6)


def test_noise_knows_the_links_and_nothing_else(sample_library):
    content = sample_library.karpathy("test")
    one, again, other = (SCORERS[name](content) for name in ("noise", "noise", "noise_1"))
    assert np.array_equal(one.captions.vectors, again.captions.vectors)
    assert not np.array_equal(one.captions.vectors, other.captions.vectors)
    scores = one.images.vectors @ one.captions.vectors.T
    is_own = content.image_ids[:, None] == content.caption_image_ids
    assert scores[is_own].mean() > 10
    assert abs(scores[~is_own].mean()) < 0.5


def test_an_image_stands_where_its_captions_do(sample_library):
    content, random = sample_library.karpathy("test"), np.random.default_rng(0)
    order = random.permutation(content.caption_ids.size)
    vectors = random.standard_normal((order.size, 8))
    run = place_images(EmbeddingsRun(None, Embeddings(content.caption_ids[order], vectors)), content)
    by_id = dict(zip(content.caption_ids[order].tolist(), vectors, strict=True))
    for row in (0, 31):
        own = [by_id[caption] for caption in content.caption_ids[content.caption_image_ids == content.image_ids[row]]]
        expected = np.mean([vector / np.linalg.norm(vector) for vector in own], axis=0)
        np.testing.assert_allclose(run.images.vectors[row], expected, atol=1e-6)
    assert run.similarity == "cosine"
    with pytest.raises(MissingIds, match=r"run: lacks 1 captions of the split, among them \d+; encode all of them"):
        place_images(EmbeddingsRun(None, Embeddings(content.caption_ids[1:], vectors[1:])), content)


def labels_of(pairs):
    rows = [(image, caption, float(good), good, 3) for image, caption, good in pairs]
    return pa.table(list(zip(*rows, strict=True)), schema=LABELS_SCHEMA)


def test_models_move_towards_what_people_say(sample_library):
    content = sample_library.karpathy("validation")
    fit = fit_anew(sample_library, "validation", "sample")
    image = int(content.image_ids[0])
    strangers = content.caption_ids[content.caption_image_ids != image]
    positive, negative = strangers[:3].tolist(), strangers[-3:].tolist()
    told = labels_of([(image, c, True) for c in positive] + [(image, c, False) for c in negative])
    (before, first), (after, second) = fit(LABELS_SCHEMA.empty_table(), 0), fit(told, 0)
    assert set(before) == set(after) == {"ridge", "ridge_bag", "tfidf"}
    for name in ("ridge", "tfidf"):
        asked = RatedPairs(np.full(3, image), np.array(positive), np.ones(3))
        said = [pair_similarities(runs[name], "i2t", asked) for runs in (before, after)]
        assert (said[1] > said[0]).all(), name
    for table in (first, second):
        assert table.num_rows == content.image_ids.size * content.caption_ids.size
        values = np.asarray(table["probability"])
        assert ((values > 0) & (values < 1)).all()
    columns = [second[name].to_pylist() for name in ("image_id", "caption_id", "probability")]
    found = {(row, caption): value for row, caption, value in zip(*columns, strict=True)}
    assert min(found[image, c] for c in positive) > 0.5 > max(found[image, c] for c in negative)


def test_models_know_their_links_before_anybody_is_asked_and_equal_seeds_are_equal(sample_library):
    content = sample_library.karpathy("validation")
    fit = fit_anew(sample_library, "validation", "sample")
    (runs, table), (again, same), (other, _) = (fit(LABELS_SCHEMA.empty_table(), seed) for seed in (0, 0, 1))
    assert table.equals(same)
    for name, run in runs.items():
        assert np.array_equal(run.images.vectors, again[name].images.vectors)
        assert np.array_equal(run.images.vectors, other[name].images.vectors) == (name != "ridge_bag")
    values = np.asarray(table["probability"]).reshape(content.image_ids.size, -1)
    is_own = content.image_ids[:, None] == content.caption_image_ids
    assert values[is_own].mean() > 0.8 > 0.3 > values[~is_own].mean()


def test_a_folder_without_the_images_is_refused(sample_library, tmp_path):
    with pytest.raises(SourceMissing, match=r"there is no COCO_train2014_\d+\.jpg; name the folder that holds it"):
        fit_anew(sample_library, "validation", tmp_path)
