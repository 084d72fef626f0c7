"""What is wrong with a run is told at once: unknown or missing items before the pass, rankings too short after it."""

import numpy as np
import pytest

from cxc_eccv.errors import InvalidOption, MissingIds, RunTooShallow, UnknownIds, raise_all
from cxc_eccv.evaluation import calls as from_run
from cxc_eccv.evaluation.measure import find_unknown_ids
from cxc_eccv.evaluation.metric_inputs import RankInput
from cxc_eccv.registry import task
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.flickr30k import COLLECTION as FLICKR30K
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers.eccv_caption import UNREACHABLE_CAPTIONS
from cxc_eccv.types import SIDES, Embeddings, Judgments


@pytest.fixture(scope="module")
def inputs(sample_library):
    coco_5k = task("coco_5k")
    return [RankInput(coco_5k, "i2t", coco_5k.judgments(sample_library.split("test"), "i2t"), ())]


def refuse_unknown_ids(*arguments):
    raise_all(find_unknown_ids(*arguments))


def run_of(images, captions):
    return EmbeddingsRun(*(Embeddings(ids, np.ones((len(ids), 1))) for ids in (images, captions)))


def test_every_split_and_the_unreachable_captions_are_known(sample_library, inputs):
    images, captions = (
        np.concatenate([sample_library.split(split).ids(side) for split in sample_library.splits]) for side in SIDES
    )
    run = run_of(images, [*captions, *UNREACHABLE_CAPTIONS])
    assert list(find_unknown_ids(run, inputs, sample_library, [COCO])) == []


def test_strangers_are_counted_and_the_first_three_named(sample_library, inputs):
    judgments = inputs[0]
    strangers = [10**9 + place for place in range(5)]
    run = run_of([*judgments.query_ids, *strangers], judgments.gallery_ids)
    with pytest.raises(UnknownIds, match=r"5 of 65 images .* the first: 1000000000, 1000000001, 1000000002\. Use the"):
        refuse_unknown_ids(run, inputs, sample_library, [COCO])


def test_captions_among_the_images_look_swapped(sample_library, inputs):
    judgments = inputs[0]
    run = run_of(np.concatenate([judgments.query_ids, judgments.gallery_ids]), judgments.gallery_ids)
    with pytest.raises(UnknownIds, match="These ids are captions: images and captions look swapped"):
        refuse_unknown_ids(run, inputs, sample_library, [COCO])


def test_flickr30k_items_are_known_without_coco(tmp_path):
    """Flickr30k needs no COCO file at hand."""
    library = Library(tmp_path, offline=True)
    inputs = [RankInput(task("flickr30k"), "i2t", Judgments.from_pairs([10**9], [7], [10**9], [7]), ())]
    refuse_unknown_ids(run_of([10**9], [7]), inputs, library, [FLICKR30K])
    with pytest.raises(UnknownIds, match="1 of 2 images"):
        refuse_unknown_ids(run_of([10**9, 5], [7]), inputs, library, [FLICKR30K])


def test_nothing_ranked_means_nothing_to_compare_with(sample_library):
    assert list(find_unknown_ids(run_of([10**9], [10**9]), [], sample_library, [COCO])) == []


@pytest.fixture
def no_pass(monkeypatch):
    """A run is refused, or the test fails."""

    def passed(*_arguments, **_options):
        pytest.fail("the pass began")

    monkeypatch.setattr(from_run, "measure", passed)


KINDS = {
    "embeddings": run_of,
    "scores": lambda images, captions: ScoresRun(
        np.asarray(images), np.asarray(captions), np.zeros((len(images), len(captions)), np.float32)
    ),
    "rankings": lambda images, captions: RankingsRun.from_dicts(
        i2t={int(image): captions for image in images}, t2i={int(caption): images for caption in captions}
    ),
}


def sides(library):
    content = library.split("test")
    return content.image_ids, content.caption_ids


@pytest.mark.usefixtures("no_pass")
@pytest.mark.parametrize("tasks", ["all", "coco_5k", ["cxc/i2t", "cxc/t2i"]])
@pytest.mark.parametrize("kind", KINDS)
def test_missing_and_unknown_items_are_reported_together(sample_library, report_of, kind, tasks):
    images, captions = sides(sample_library)
    run = KINDS[kind]([*images[2:], 10**9], [*captions[3:], 10**9 + 1])
    with pytest.raises(MissingIds) as told:
        report_of(run, tasks)
    missing = "lacks the rankings of {} of {} queries" if kind == "rankings" else "lacks {} of {} "
    lines = str(told.value).splitlines()
    assert len(lines) == 4
    assert missing.format(2, 60) in lines[0]
    assert missing.format(3, 300) in lines[1]
    assert "1 of 59 images are unknown" in lines[2]
    assert "1 of 298 captions are unknown" in lines[3]


@pytest.mark.usefixtures("no_pass")
@pytest.mark.parametrize("kind", KINDS)
def test_sample_is_named_for_other_data(sample_library, report_of, kind):
    """A run of COCO shares a few small caption ids with the sample by chance, and no image."""
    _, captions = sides(sample_library)
    run = KINDS[kind]([10**9 + number for number in range(90)], [*captions[:7], *range(2 * 10**9, 2 * 10**9 + 90)])
    with pytest.raises(MissingIds) as caught:
        report_of(run)
    message = str(caught.value)
    sample = "unknown to the embedded sample (CXC_ECCV_DATA=sample or --data-dir sample)"
    assert f"90 of 90 images are {sample}" in message
    assert f"90 of 97 captions are {sample}" in message
    assert message.count("Leave that out for COCO.") == 2
    assert "--allow-missing" not in message


@pytest.mark.usefixtures("no_pass")
def test_rankings_of_other_data_are_no_part(sample_library, report_of):
    _, captions = sides(sample_library)
    other = [10**9 + number for number in range(90)]
    queries = [*captions[:7].tolist(), *range(2 * 10**9, 2 * 10**9 + 90)]
    run = RankingsRun.from_dicts(t2i=dict.fromkeys(queries, other))
    with pytest.raises(MissingIds, match="ranks no item of the gallery: is it from another split") as caught:
        report_of(run)
    assert "--allow-missing" not in str(caught.value)


@pytest.mark.usefixtures("no_pass")
@pytest.mark.parametrize("kind", KINDS)
def test_unknown_items_alone_are_told_before_the_pass(sample_library, report_of, kind):
    images, captions = sides(sample_library)
    with pytest.raises(UnknownIds, match="1 of 61 images are unknown to the data, the first: 1000000000"):
        report_of(KINDS[kind]([*images, 10**9], captions), "cxc")


@pytest.mark.usefixtures("no_pass")
def test_all_uncomputable_tasks_are_reported_before_the_pass(sample_library, report_of):
    images, captions = sides(sample_library)
    run = RankingsRun.from_dicts(i2t={int(image): captions[:1] for image in images})
    with pytest.raises(InvalidOption) as told:
        report_of(run, ["coco_1k", "cxc/t2t", "eccv_caption"])
    lines = str(told.value).splitlines()
    assert [line.partition(" cannot be computed")[0] for line in lines] == ["coco_1k", "cxc"]
    assert "needs 5,000 images" in lines[0]
    assert "the run has no t2t rankings" in lines[1]


def test_all_metrics_that_look_too_deep_are_reported(sample_library, report_of):
    images, captions = sides(sample_library)
    run = RankingsRun.from_dicts(i2t={int(image): captions[:4] for image in images})
    with pytest.raises(RunTooShallow) as told:
        report_of(run, ["plausible_match/i2t", "entailment", "cxc/i2t"])
    (line,) = str(told.value).splitlines()
    assert line.startswith("plausible_match cannot be computed: query ")
    assert line.count("ranked items for its plausible matches, but its ranking holds 4 of the gallery") == 2
    with pytest.raises(RunTooShallow) as told:
        report_of(run, metrics=["recall_at_5", "map_at_r", "ndcg_at_k", "pmrp", "entail_at_5"])
    lines = str(told.value).splitlines()
    assert len(lines) >= 5
    assert all("looks at the top" in line or "ranked items for its" in line for line in lines)
