"""Training with several positives: who matches whom against the labels, the loss against a loop over its formula."""

import math
import pickle
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

import datasets  # noqa: E402 - after the check for torch
import tiny_models  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402

import cxc_eccv as ce  # noqa: E402
from cxc_eccv.builders.folder_writing import build_folder  # noqa: E402
from cxc_eccv.errors import InvalidOption  # noqa: E402
from cxc_eccv.judgments.merging import merge  # noqa: E402
from cxc_eccv.types import DIRECTIONS  # noqa: E402


@pytest.fixture(scope="module")
def get(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    return lambda *names, **options: ce.load(*names, data_dir="sample", cache_dir=folder, **options)


def judged_pairs(library, direction):
    found = merge(library.split("test"), direction)
    queries = found.query_ids[found.queries[found.positive]]
    items = found.gallery_ids[found.items[found.positive]]
    pairs = zip(queries.tolist(), items.tolist(), strict=True)
    return {pair if direction == "i2t" else pair[::-1] for pair in pairs}


def pairs_of(positives):
    return {(image, caption) for image, captions in positives.items() for caption in captions}


@pytest.mark.parametrize("streaming", [False, True])
def test_the_positives_are_those_of_the_labels(get, sample_library, streaming):
    i2t, t2i = (judged_pairs(sample_library, direction) for direction in ("i2t", "t2i"))
    assert pairs_of(ce.collect_positives(get("retrieval", "test", streaming=streaming))) == i2t | t2i
    assert pairs_of(ce.collect_positives(get("pairs", "test", streaming=streaming))) == i2t


def test_what_either_direction_judges_counts():
    """ECCV Caption judges both directions separately."""
    rows = [(1, "i2t", [11]), (21, "t2i", [1, 2]), (11, "t2t", [21]), (1, "i2i", [2])]
    columns = {
        "query_id": [query for query, _, _ in rows],
        "direction": [direction for _, direction, _ in rows],
        "positives": [[{"id": number} for number in ids] for _, _, ids in rows],
        "negatives": [[{"id": 12}]] * 4,
    }
    dataset = datasets.Dataset.from_dict(columns).cast_column("direction", datasets.ClassLabel(names=list(DIRECTIONS)))
    assert ce.collect_positives(dataset) == {1: {11, 21}, 2: {21}}


def test_dataset_without_image_caption_pairs_is_refused(get):
    with pytest.raises(InvalidOption, match=r"'caption1_id', .* give one split of the config `pairs` or `retrieval`"):
        ce.collect_positives(get("sts", "test"))
    with pytest.raises(InvalidOption, match="give one split"):
        ce.collect_positives(get("pairs"))
    rows = get("retrieval", "test")
    texts = rows.filter(lambda row: row["direction"] == rows.features["direction"].str2int("t2t"))
    with pytest.raises(InvalidOption, match="keep rows of direction i2t or t2i"):
        ce.collect_positives(texts)


def process(text, images, *, padding, truncation, return_tensors):
    assert (padding, truncation, return_tensors) == (True, True, "pt")
    assert {image.mode for image in images} == {"RGB"}
    return {"lengths": torch.tensor([len(caption) for caption in text])}


def row(image_id, caption_id, image=None):
    image = image or Image.new("L", (8, 6))
    return {"image": image, "image_id": image_id, "caption_id": caption_id, "caption": "x" * image_id}


def test_a_batch_marks_who_matches_whom(get):
    dataset = get("pairs", "test")
    rows = [one | {"image": Image.new("L", (8, 6))} for one in dataset.shuffle(seed=0).select(range(120))]
    batch = ce.MultiPositiveCollator(process, ce.collect_positives(dataset))(rows)
    expected = [
        [
            b["image_id"] == a["image_id"] or b["caption_id"] in {weak["caption_id"] for weak in a["weak_positives"]}
            for b in rows
        ]
        for a in rows
    ]
    assert batch["positives"].dtype == torch.bool
    assert batch["positives"].tolist() == expected
    own = sum(a["image_id"] == b["image_id"] for a in rows for b in rows)
    assert batch["positives"].sum() > own > len(rows)
    assert batch["lengths"].tolist() == [len(one["caption"]) for one in rows]


def test_paired_rows_are_positives_despite_the_judgments():
    batch = ce.MultiPositiveCollator(process, {})([row(1, 11), row(2, 11), row(2, 21)])
    # Caption 11 was paired with both images; caption 21 with the second alone.
    assert batch["positives"].tolist() == [[True, True, False], [True, True, True], [True, True, True]]


def test_rows_that_lack_something_are_refused_by_name():
    collator = ce.MultiPositiveCollator(process, {})
    whole = row(1, 11)
    with pytest.raises(
        InvalidOption,
        match=r"lack image, caption; .*`captions` with .*remove_unused_columns=False",
    ):
        collator([{name: whole[name] for name in ("image_id", "caption_id")}])
    with pytest.raises(InvalidOption, match="the row of caption 21 has no image"):
        collator([whole, row(2, 21) | {"image": None}])


def clip_processor(limit):
    return transformers.CLIPProcessor(tiny_models.clip_images(), tiny_models.clip_tokenizer(limit))


def long_rows(*lengths):
    return [row(number, number) | {"caption": "x" * length} for number, length in enumerate(lengths)]


def test_truncated_captions_are_counted_once(recwarn):
    collator = ce.MultiPositiveCollator(clip_processor(6), {})
    collator(long_rows(3, 2))
    collator(long_rows(4, 1))  # with two marks as long as the context
    assert not recwarn
    with pytest.warns(UserWarning, match="2 of the 4 captions of a batch exceed the context of 6 tokens and are trunc"):
        batch = collator(long_rows(5, 1, 9, 4))
    assert batch["input_ids"].shape == (4, 6)
    collator(long_rows(5, 5, 5))
    assert not recwarn


@pytest.mark.parametrize(("worker", "count"), [(0, 1), (1, 0)])
def test_first_worker_alone_warns_of_truncation(worker, count, monkeypatch, recwarn):
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: SimpleNamespace(id=worker))
    ce.MultiPositiveCollator(clip_processor(6), {})(long_rows(5, 1))
    assert len(recwarn) == count


def test_collator_is_the_same_in_another_process():
    collator = ce.MultiPositiveCollator(clip_processor(6), {1: {0}}, ignored={0: {1}})
    here = collator(long_rows(1, 2))
    there = pickle.loads(pickle.dumps(collator))(long_rows(1, 2))
    assert here.keys() == there.keys()
    assert all(torch.equal(here[name], there[name]) for name in here)


def test_one_of_several_captions_is_drawn():
    texts = {11: "x", 12: "xx", 13: "xxx"}
    image = {"image": Image.new("L", (8, 6)), "image_id": 1}
    image["captions"] = [{"id": number, "text": text} for number, text in texts.items()]
    collator = ce.MultiPositiveCollator(process, {1: {13}, 2: {12}})
    torch.manual_seed(0)
    batches = [collator([image, row(2, 21)]) for _ in range(60)]
    drawn = [int(batch["lengths"][0]) for batch in batches]
    assert {length: drawn.count(length) > 10 for length in drawn} == {1: True, 2: True, 3: True}
    # Image 2 shows caption 12 too.
    assert all(bool(batch["positives"][1, 0]) == (length == 2) for batch, length in zip(batches, drawn, strict=True))
    torch.manual_seed(0)
    assert [int(collator([image, row(2, 21)])["lengths"][0]) for _ in range(60)] == drawn


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    options = {"data_dir": "sample", "images": "sample", "progress": False}
    build_folder(folder / "data", configs=["captions", "pairs"], splits=["validation"], **options)
    return lambda name, **more: datasets.load_dataset(
        str(folder / "data"), name, split="validation", cache_dir=str(folder / "cache"), **more
    )


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks, from Python 3.12 on
@pytest.mark.parametrize("streaming", [False, True])
def test_workers_read_each_photograph_of_a_folder_once(built, streaming):
    pairs = built("pairs")
    photographs = built("captions", streaming=streaming)
    collator = ce.MultiPositiveCollator(clip_processor(80), ce.collect_positives(pairs))
    loader = torch.utils.data.DataLoader(photographs, batch_size=16, collate_fn=collator, num_workers=2)
    batches = list(loader)
    assert [len(batch["pixel_values"]) for batch in batches] == [16, 16, 16, 12]
    at_once = ce.MultiPositiveCollator(clip_processor(80), {})(list(photographs))
    assert torch.equal(torch.cat([batch["pixel_values"] for batch in batches]), at_once["pixel_values"])
    assert all(batch["positives"].diagonal().all() for batch in batches)


def slow_loss(similarities, positives, temperature):
    """One direction: the mean over rows of the mean over positives of minus the log of the softmax."""
    total = 0.0
    for scores, marks in zip(similarities, positives, strict=True):
        powers = [math.exp(score / temperature) for score in scores]
        logs = [math.log(power / sum(powers)) for power, mark in zip(powers, marks, strict=True) if mark]
        total -= sum(logs) / len(logs)
    return total / len(similarities)


@pytest.mark.parametrize("temperature", [1.0, 0.25, torch.tensor(2.0)])
def test_the_loss_is_its_formula_in_both_directions(temperature):
    similarities = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))
    positives = torch.eye(5, 7, dtype=torch.bool)
    positives[0, 3] = positives[2, 5] = positives[4, 6] = positives[2, 0] = True
    forth = slow_loss(similarities.tolist(), positives.tolist(), float(temperature))
    back = slow_loss(similarities.T.tolist(), positives.T.tolist(), float(temperature))
    found = ce.multi_positive_loss(similarities, positives, temperature=temperature)
    assert found.item() == pytest.approx((forth + back) / 2, rel=1e-5)
    half = ce.multi_positive_loss(similarities.bfloat16(), positives, temperature=temperature)
    assert half.dtype == torch.float32


def test_single_positive_gives_the_clip_loss():
    similarities = torch.randn(6, 6, generator=torch.Generator().manual_seed(2))
    cross_entropy = torch.nn.functional.cross_entropy
    own = torch.arange(6)
    expected = (cross_entropy(similarities, own) + cross_entropy(similarities.T, own)) / 2
    torch.testing.assert_close(ce.multi_positive_loss(similarities, torch.eye(6, dtype=torch.bool)), expected)


@pytest.mark.parametrize(
    ("similarities", "positives", "options", "message"),
    [
        (torch.zeros(2, 3), torch.ones(3, 2, dtype=torch.bool), {}, r"\(2, 3\) and \(3, 2\) \(torch.bool\)"),
        (torch.zeros(2, 2), torch.eye(2), {}, "the second bool"),
        (torch.zeros(2, 2), torch.eye(2, dtype=torch.int64), {}, "the second bool"),
        (torch.zeros(2, 2), torch.eye(2, dtype=torch.bool), {"temperature": 0.0}, "temperature is 0.0"),
        (torch.zeros(2, 2), torch.eye(2, dtype=torch.bool), {"temperature": math.nan}, "temperature is nan"),
        (torch.zeros(2, 2), torch.tensor([[True, True], [False, False]]), {}, "1 of 2 images of the batch have no"),
        (torch.zeros(2, 3), torch.eye(2, 3, dtype=torch.bool), {}, "1 of 3 captions of the batch have no positive"),
        (torch.zeros(2, 2), torch.eye(2, dtype=torch.bool), {"ignored": torch.zeros(2, 2)}, "similarities and ignored"),
        (
            torch.zeros(2, 2),
            torch.eye(2, dtype=torch.bool),
            {"ignored": torch.zeros(2, 3, dtype=torch.bool)},
            r"similarities and ignored are \(2, 2\) and \(2, 3\) .*; give two matrices of one shape",
        ),
    ],
)
def test_what_has_no_loss_is_refused(similarities, positives, options, message):
    with pytest.raises(InvalidOption, match=message):
        ce.multi_positive_loss(similarities, positives, **options)


def test_dataset_with_images_passes_a_data_loader(get, tmp_path):
    rows = get("pairs", "test").select(range(6)).to_list()
    rows = datasets.Dataset.from_list([one | {"image": Image.new("RGB", (8, 6))} for one in rows])
    collator = ce.MultiPositiveCollator(process, ce.collect_positives(rows))
    batches = list(torch.utils.data.DataLoader(rows, batch_size=3, collate_fn=collator))
    assert [batch["positives"].shape for batch in batches] == [(3, 3), (3, 3)]


def test_batch_marks_ignored_pairs_unless_positive():
    rows = [row(1, 11), row(2, 21), row(3, 31)]
    batch = ce.MultiPositiveCollator(process, {1: {21}}, ignored={1: {21, 31}, 2: {11, 21}})(rows)
    assert batch["positives"].tolist() == [[True, True, False], [False, True, False], [False, False, True]]
    assert batch["ignored"].tolist() == [[False, False, True], [True, False, False], [False, False, False]]
    assert "ignored" not in ce.MultiPositiveCollator(process, {})(rows)


def test_what_is_ignored_is_neither_pulled_nor_pushed():
    similarities = torch.randn(4, 4, generator=torch.Generator().manual_seed(5)).requires_grad_()
    positives = torch.eye(4, dtype=torch.bool)
    ignored = torch.zeros(4, 4, dtype=torch.bool)
    ignored[0, 2] = ignored[3] = True  # a positive of the last row stays one
    found = ce.multi_positive_loss(similarities, positives, ignored=ignored, temperature=0.5)
    found.backward()
    away = ignored & ~positives
    assert not similarities.grad[away].any()
    assert similarities.grad[~away & ~torch.eye(4, dtype=torch.bool)].gt(0).all()

    def one_way(table, left_out):
        total = 0.0
        for place, (scores, gone) in enumerate(zip(table.tolist(), left_out.tolist(), strict=True)):
            powers = [math.exp(score / 0.5) for score, skip in zip(scores, gone, strict=True) if not skip]
            total -= math.log(math.exp(scores[place] / 0.5) / sum(powers))
        return total / len(table)

    assert found.item() == pytest.approx((one_way(similarities, away) + one_way(similarities.T, away.T)) / 2, rel=1e-5)
