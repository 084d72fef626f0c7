"""The dicts of the eccv_caption package, unchanged, give its scores; and where the package is silent, we are not."""

import pytest

import cxc_eccv as ce
from cxc_eccv.errors import MalformedRun, RunTooShallow
from cxc_eccv.ranking import ranked
from cxc_eccv.registry import task

pytestmark = pytest.mark.reference

eccv_caption = pytest.importorskip("eccv_caption", reason="the eccv_caption package is not installed")

DEPTH = 1000
NAMES = {"eccv_map_at_r": "map_at_r", "eccv_rprecision": "r_precision", "eccv_r1": "recall_at_1"}


@pytest.fixture(scope="module")
def eccv_rankings(real_library, make_run):
    """i2t and t2i dicts of the queries that ECCV Caption judged, as deep as the package looks."""
    run = make_run(real_library, width=8)
    judged = {
        direction: task("eccv_caption").judgments(real_library.split("test"), direction) for direction in ("i2t", "t2i")
    }
    tops = [ranked(run).find_top(own, direction, DEPTH) for direction, own in judged.items()]
    return [dict(zip(top.query_ids.tolist(), top.ids.tolist(), strict=True)) for top in tops]


@pytest.fixture(scope="module")
def peer():
    return eccv_caption.Metrics()


def test_eccv_query_dicts_score_like_the_package(real_library, eccv_rankings, peer):
    i2t, t2i = eccv_rankings
    theirs = peer.compute_all_metrics(i2t, t2i, target_metrics=list(NAMES))
    options = {"data_dir": real_library, "confidence": None, "metrics": ["map_at_r", "r_precision", "recall_at_k"]}
    ours = ce.evaluate(i2t=i2t, t2i=t2i, tasks="eccv_caption", **options).scores
    for name, label in NAMES.items():
        for direction in ("i2t", "t2i"):
            assert abs(ours[f"eccv_caption/{direction}/{label}"] - theirs[name][direction]) < 1e-12


def test_what_the_package_passes_over_in_silence(real_library, eccv_rankings, peer):
    """Facts of docs/error_messages.md: each gives a number there and an error here."""
    i2t, t2i = eccv_rankings
    scores = peer.compute_all_metrics(i2t, t2i, target_metrics=["eccv_map_at_r"])

    again = peer.compute_all_metrics({}, {}, target_metrics=["eccv_map_at_r"])
    assert again == scores
    with pytest.raises(MalformedRun, match="i2t: holds no query"):
        ce.evaluate(i2t={}, t2i={}, data_dir=real_library)

    text = {query: [str(item) for item in items[:50]] for query, items in zip(t2i, t2i.values(), strict=True)}
    zeros = peer.eccv_metrics({"t2i": text}, "t2i")
    assert {values["t2i"] for values in zeros.values()} == {0.0}
    with pytest.raises(MalformedRun, match="whole-number ids"):
        ce.evaluate(t2i=text, data_dir=real_library)

    positives = real_library.split("test").eccv("eccv", "t2i").to_pandas().groupby("query_id")["item_id"].apply(list)
    one = {int(query): [own[0]] * 50 for query, own in positives.items()}
    assert peer.eccv_metrics({"t2i": one}, "t2i")["eccv_map_at_r"]["t2i"] == 1.0
    with pytest.raises(MalformedRun, match="twice, at ranks 1 and 2"):
        ce.evaluate(t2i=one, data_dir=real_library)

    cut = {query: items[:1] for query, items in one.items()}
    precision = eccv_caption.metrics.compute_rprecision(cut, positives.to_dict())
    assert precision == 1.0
    with pytest.raises(RunTooShallow, match="r_precision of query"):
        ce.evaluate(t2i=cut, tasks="eccv_caption/t2i", metrics=["r_precision"], data_dir=real_library)
