"""RoCOCO's real files: what they hold, what is wrong with them; and all tasks against plain loops on them."""

from collections import Counter

import numpy as np
import pytest
from altered_runs import altered_run

from cxc_eccv.evaluation import evaluate
from cxc_eccv.types.altered import ALTERATIONS


@pytest.fixture(scope="module")
def tables(real_library):
    return {kind: real_library.rococo(kind).to_pylist() for kind in ALTERATIONS}


@pytest.mark.parametrize(
    ("kind", "distinct", "capitals", "full_stops"),
    [
        ("same_concept", 24_993, 3, 0),
        ("diff_concept", 25_000, 0, 0),
        ("rand_voca", 24_987, 0, 0),
        ("danger", 24_812, 19_279, 18_816),
    ],
)
def test_totals(tables, kind, distinct, capitals, full_stops):
    altered = [row["altered"] for row in tables[kind]]
    assert (len(altered), len(set(altered))) == (25_000, distinct)
    assert sum(text[0].isupper() for text in altered) == capitals
    assert sum(text.endswith(".") for text in altered) == full_stops
    assert all(text == text.strip() for text in altered)


def test_originals_end_in_full_stops_and_three_dangerous_captions_equal_theirs(tables):
    originals = [row["original"] for row in tables["danger"]]
    assert sum(text[0].isupper() for text in originals) == 21_244
    assert sum(text.rstrip().endswith(".") for text in originals) == 18_816
    equal = {
        kind: [row["caption_id"] for row in rows if row["altered"] == row["original"]] for kind, rows in tables.items()
    }
    assert tables["danger"][0]["altered"] == "A criminal with a red helmet on a small moped on a dirt road ."
    assert equal == {"same_concept": [], "diff_concept": [], "rand_voca": [], "danger": [570396, 784839, 608017]}


def test_altered_captions_are_next_to_their_own_originals(tables):
    """The source pairs them by their places alone: words in common say that these are right."""
    for rows in tables.values():
        near = 0
        for start in range(0, 25_000, 100):
            five = rows[start : start + 5]
            for place, row in enumerate(five):
                words = Counter(row["altered"].lower().replace(".", "").split())
                shared = [(Counter(own["original"].lower().replace(".", "").split()) & words).total() for own in five]
                near += shared[place] == max(shared)
        assert near >= 1_240


def source_protocol(scores, own, altered):
    """The source's ``itm_eval``: sort each row, look at the first item and at the best place of an own caption."""
    false, ranks = 0, np.zeros(len(scores))
    for index, score in enumerate(scores):
        order = np.argsort(score)[::-1]
        false += order[0] in altered
        ranks[index] = min(np.where(order == item)[0][0] for item in own[index])
    return [np.mean(ranks < k) for k in (1, 5, 10)] + [false / len(scores)]


def test_the_protocol_of_the_source_agrees(real_library):
    """On scores without ties, which its sort would leave to chance, and without its ten sixth captions."""
    content, images = real_library.karpathy("test"), 200
    run = altered_run(content, seed=1, kinds=("danger",))
    rng = np.random.default_rng(0)
    noise = {side: rng.standard_normal(getattr(run, side).vectors.shape) for side in ("images", "captions")}
    altered = run.further["rococo_danger_embeddings"] + rng.standard_normal(noise["captions"].shape)
    vectors = {side: (getattr(run, side).vectors + noise[side]).astype(np.float32) for side in noise}
    noisy = type(run)(
        type(run.images)(run.images.ids, vectors["images"]),
        type(run.images)(run.captions.ids, vectors["captions"]),
        further={**run.further, "rococo_danger_embeddings": altered.astype(np.float32)},
    )
    report = evaluate(noisy, "rococo_danger", data_dir=real_library, intervals="none", per_query=True, progress=False)
    gallery = np.vstack([vectors["captions"], altered.astype(np.float32)]).astype(float)
    gallery /= np.linalg.norm(gallery, axis=1, keepdims=True)
    scores = vectors["images"][:images].astype(float) @ gallery.T
    found = source_protocol(scores, np.arange(5 * images).reshape(images, 5), set(range(25_000, 50_000)))
    shown = set(content.image_ids[:images].tolist())
    metrics = ("recall_at_1", "recall_at_5", "recall_at_10", "false_rate")
    rows = [row for row in report.per_query.to_pylist() if row["query_id"] in shown]
    ours = [np.mean([row["value"] for row in rows if row["metric"] == metric]) for metric in metrics]
    assert ours == pytest.approx(found)
