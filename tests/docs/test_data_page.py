"""The numbers of ``docs/data.md`` are those of the files."""

import csv
import json
import math
import re
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest
from pages import DOCS, ROOT
from row_measures import count_matches

from cxc_eccv.judgments.merging import cxc_rated, eccv_caption, merged_qrels
from cxc_eccv.judgments.plausible import category_matches
from cxc_eccv.sources.readers.eccv_caption import UNREACHABLE_CAPTIONS, invalid_items

PAGE = " ".join((DOCS / "data.md").read_text(encoding="utf-8").replace("|", " ").split())
STATISTICS = json.loads((ROOT / "dataset_cards" / "statistics.json").read_text(encoding="utf-8"))["configs"]
COLUMNS = ("caption_id", "image_id", "text")
METHODS = {"sts": ("c2c_cocaption", "c2c_isim"), "sis": ("i2i_csim",), "sits": ("c2i_original", "c2i_intrasim")}


def says(*values):
    """The page has these values side by side."""
    text = " ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in values)
    assert text in PAGE, text


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("kind", METHODS)
def test_ratings(kind, split):
    """The statistics of the cards are computed from the real files, wherever these are at hand."""
    groups = STATISTICS[kind][split]["groups"]
    positives = {name: group["columns"]["positive"]["true"] for name, group in groups.items()}
    for method in METHODS[kind]:
        ratings = groups[method]["columns"]["rating"]
        counted = (positives[method],) if kind == "sits" else ()
        says(groups[method]["rows"], f"{ratings['mean']:.3f}", *counted)
    if kind == "sts":
        says(sum(positives.values()), "in all")
    if kind == "sis":
        says(sum(positives.values()), {"validation": "rows of validation", "test": "of test are positive"}[split])


def test_rated_pairs_together():
    says(sum(STATISTICS[kind][split]["rows"] for kind in METHODS for split in ("validation", "test")), "rated pairs")


def test_images_and_captions(real_library):
    for split in ("validation", "test"):
        content = real_library.split(split)
        says(f"`{split}`", content.image_ids.size, content.caption_ids.size)
    reasons = Counter((row["kind"], row["reason"] == "caption without content") for row in invalid_items().to_pylist())
    empty = reasons["caption", True]
    wrong = reasons["caption", False]
    says(f"{empty} test captions without content and {wrong} that are wrong, and one test image (578492)")


def test_positives(real_library):
    union, strict = (merged_qrels(real_library.split("test"), "i2t", policy=policy) for policy in ("union", "strict"))
    says(union.indices.size, "positive image-caption pairs")
    says(union.indices.size - strict.indices.size, "links that are rated below 3")
    says(cxc_rated(real_library.split("test"), "t2i").query_ids.size, "captions remain as queries")
    for direction, words in (("i2t", "image to text"), ("t2i", "text to image")):
        qrels = eccv_caption(real_library.split("test"), direction)
        low = qrels.n_positives.min()
        high = qrels.n_positives.max()
        says(words, qrels.query_ids.size, int(qrels.n_positives.sum()), f"{low} to {high}", qrels.gallery_ids.size)
    for caption, image in ((144675, 575916), (467259, 421999)):
        assert caption in UNREACHABLE_CAPTIONS
        assert f"{caption} (of image {image})" in PAGE


def test_links_rated_below_three(real_library):
    below = []
    for split in ("test", "validation"):
        table = real_library.split(split).ratings("sits")
        original = np.asarray(table["sampling_method"]) == "c2i_original"
        below.append(int((original & (np.asarray(table["rating"]) < 3)).sum()))
    says(f"{below[0]} original links of test ({below[1]} of validation)")


def test_plausible_matches(real_library):
    matches = [category_matches(real_library.split("test"), direction) for direction in ("i2t", "t2i")]
    largest = [[f"{count_matches(found, zeta).max():,}" for zeta in (0, 1, 2)] for found in matches]
    says("it reaches {} at zeta 0, {} at zeta 1 and {} at zeta 2".format(*largest[0]))
    says("{}, {} and {}".format(*largest[1]))
    without = [
        int((~real_library.split(split).categories().present.any(axis=1)).sum()) for split in ("test", "validation")
    ]
    says(f"{without[0]} test images and {without[1]} validation images show no category")


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore:failed to import `ujson`")
def test_the_peer_returns_nothing_for_r_precision_alone():
    """What ``docs/why_different.md`` says of it."""
    peer = pytest.importorskip("eccv_caption", reason="comes with the extra 'dev'").Metrics()
    assert peer.compute_all_metrics({1: [2]}, {2: [1]}, target_metrics=("eccv_rprecision",)) == {}


def test_chart_columns_equal_counts_of_files(real_library):
    """Their heights, by the numbers beside the axis, for each kind of pair, sampling and whole rating."""
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse(DOCS / "assets" / "cxc_ratings.svg").getroot()
    ticks = [text for text in root.iter(f"{svg}text") if text.get("text-anchor") == "end"]
    places = [(float(text.get("y")) - 4, 1000 * float(text.text)) for text in ticks]
    slope, start = np.polyfit(*zip(*places, strict=True), 1)
    columns = [line for line in root.iter(f"{svg}line") if "column" in line.get("class")]
    drawn = [slope * float(column.get("y2")) + start for column in columns]
    counts = []
    for kind, methods in METHODS.items():
        with real_library.path(f"{kind}_val").open(encoding="utf-8", newline="") as file:
            rows = [(row["sampling_method"], float(row["agg_score"])) for row in csv.DictReader(file)]
        for method in methods:
            ratings = [rating for own, rating in rows if own == method]
            counts += np.histogram(ratings, bins=range(6))[0].tolist()
    assert len(counts) == 25
    assert drawn == pytest.approx(counts, abs=10)
    sts = np.array(counts[:5])
    says(f"in validation {sts[:3].sum():,} of {sts.sum():,} are rated below 3")


def test_chart_positives_equal_counts_of_files(real_library):
    """The number above each column, its height and the text below."""
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse(DOCS / "assets" / "cxc_positives.svg").getroot()
    texts = list(root.iter(f"{svg}text"))
    ticks = [text for text in texts if text.get("text-anchor") == "end"]
    places = [(float(text.get("y")) - 4, 1000 * float(text.text)) for text in ticks]
    slope, start = np.polyfit(*zip(*places, strict=True), 1)
    drawn = [slope * float(line.get("y2")) + start for line in root.iter(f"{svg}line") if "column" in line.get("class")]
    written = [int(text.text.replace(",", "")) for text in texts if re.fullmatch(r"[\d,]{5,}", text.text)]
    counts = []
    for kind in METHODS:
        ratings = [rating for _, _, rating in read_ratings(real_library, kind)]
        counts += [sum(3 <= rating < 4 for rating in ratings), sum(rating >= 4 for rating in ratings)]
    assert written == counts
    assert drawn == pytest.approx(counts, abs=20)
    says(
        f"{counts[5]:,} image-caption pairs are rated 4 or higher, {counts[1]:,} caption pairs and {counts[3]:,} image"
    )


def read_ratings(library, kind):
    """The last number of either name, and the rating, of each row of a validation file."""
    with library.path(f"{kind}_val").open(encoding="utf-8", newline="") as file:
        for left, right, rating, _ in list(csv.reader(file))[1:]:
            yield *(int(re.search(r"(\d+)(\.jpg)?$", name)[1]) for name in (left, right)), float(rating)


@pytest.mark.slow
def test_cosines_of_the_chart_are_those_of_words(real_library):
    """By dictionaries of words, for each row of the files; a median is drawn where the numbers beside it say."""
    captions = real_library.split("validation").captions
    bags, captions_of = {}, {}
    for caption, image, text in zip(*(captions[name].to_pylist() for name in COLUMNS), strict=True):
        bags[caption] = Counter(re.findall(r"[a-z0-9]+(?:'[a-z]+)?", text.lower()))
        captions_of.setdefault(image, []).append(caption)
    found_in = Counter(word for bag in bags.values() for word in bag)
    for bag in bags.values():
        for word in bag:
            bag[word] *= math.log((1 + len(bags)) / (1 + found_in[word])) + 1
        length = math.sqrt(sum(weight**2 for weight in bag.values()))
        for word in bag:
            bag[word] /= length

    def compare(left, right):
        pairs = [(a, b) for a in left for b in right if a != b]
        return max(sum(weight * bags[b][word] for word, weight in bags[a].items() if word in bags[b]) for a, b in pairs)

    titles = re.findall(r"<title>rating (.*?)</title>", (DOCS / "assets" / "similarity_by_rating.svg").read_text())
    assert len(titles) == 30
    for number, kind in enumerate(METHODS):
        ratings = {}
        for left, right, rating in read_ratings(real_library, kind):
            left = captions_of[left] if kind == "sis" else [left]
            right = [right] if kind == "sts" else captions_of[right]
            ratings.setdefault(min(int(2 * rating), 9), []).append((left, right))
        for place, title in zip(sorted(ratings), titles[10 * number : 10 * number + 10], strict=True):
            cosines = [compare(*pair) for pair in ratings[place]]
            first, median, third = np.percentile(np.repeat(cosines, 1 if kind == "sits" else 2), (25, 50, 75))
            pattern = r"(.*): median ([\d.]+), half from ([\d.]+) to ([\d.]+), n = ([\d,]+)"
            range_text, *shown, n = re.fullmatch(pattern, title).groups()
            assert range_text == f"{place / 2:g} to {place / 2 + 0.5:g}"
            assert int(n.replace(",", "")) == len(cosines) * (1 if kind == "sits" else 2)
            assert [float(value) for value in shown] == pytest.approx([median, first, third], abs=6e-4)
