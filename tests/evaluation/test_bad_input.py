"""What bad input gets: never a number, but an error of our tree that names the place and the remedy."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from bad_inputs import BAD_INPUTS
from spoilt_runs import Good, columns, npz, rankings, scores, trec

import cxc_eccv as ce
from cxc_eccv import errors
from cxc_eccv.errors import CxcEccvError, MalformedRun
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.types import Embeddings

PAGE = Path(__file__).parents[2] / "docs" / "error_messages.md"
ROWS = [line.split(" | ")[0] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
PIECES = [piece for row in ROWS for piece in re.findall(r"`([^`]+)`", row)]
"""What the page tells readers to look for in a message."""
NAMES = [" in ".join(key) for key in BAD_INPUTS]


@pytest.fixture(scope="module")
def good(sample_library):
    return Good.of(sample_library)


@pytest.mark.parametrize("case", BAD_INPUTS.values(), ids=NAMES)
def test_bad_input_is_refused_with_a_remedy(case, good, report_of, tmp_path):
    path = case.write(good, tmp_path)
    with pytest.raises(CxcEccvError) as caught:
        report_of(ce.load_run(path), **case.options)
    assert type(caught.value).__name__ == case.error
    for word in case.words:
        assert word in str(caught.value)


def test_page_rows_match_a_message(good, report_of, tmp_path):
    """And every message is explained there."""
    found = set()
    for number, case in enumerate(BAD_INPUTS.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(CxcEccvError) as caught:
            report_of(ce.load_run(case.write(good, folder)), **case.options)
        pieces = {piece for piece in PIECES if piece in str(caught.value)}
        assert pieces, str(caught.value)
        found |= pieces
    assert found == set(PIECES)


def test_every_error_the_page_names_exists():
    for name in re.findall(r"`([A-Z]\w+)`", PAGE.read_text(encoding="utf-8")):
        assert issubclass(getattr(errors, name), CxcEccvError)


def test_good_forms_are_accepted(good, report_of, tmp_path):
    """The unspoilt files work, so that each case above fails for its own reason."""
    unspoilt = [
        npz(lambda arrays: None),
        scores(lambda arrays: None),
        rankings(lambda content: None),
        columns(lambda table: None),
        trec("{query} Q0 {item} 2 -2 run"),
    ]
    for write in unspoilt:
        report = report_of(ce.load_run(write(good, tmp_path)), confidence=None)
        assert 0 <= report.scores["coco_5k/t2i/recall_at_10"] <= 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Embeddings(["1", "2"], np.eye(2)), "embeddings, ids: has type <U1"),
        (lambda: Embeddings([1.0, 2.0], np.eye(2)), "embeddings, ids: has type float64"),
        (lambda: Embeddings([1, 1], np.eye(2)), "id 1 is in rows 0 and 1"),
        (lambda: Embeddings([1, 2], [[1.0, np.nan], [1.0, 1.0]]), r"value nan in row 0, column 1 \(id 1\)"),
        (lambda: Embeddings([1, 2], [[1e300, 1.0], [1.0, 1.0]]), r"value 1e\+300 .*does not fit float32"),
        (lambda: Embeddings([1, 2], np.full((2, 2), np.inf, dtype=np.float16)), "float16 overflows"),
        (lambda: Embeddings([1, 2], [[1.0], [1.0, 2.0]]), "unequal length"),
        (lambda: Embeddings([1, 2], np.array([["a"], ["b"]])), "vectors: has type <U1"),
        (lambda: Embeddings([1, 2], np.array([[None], [1]])), "vectors: has type object"),
        (lambda: Embeddings([1, 2], np.ma.masked_array(np.eye(2), np.eye(2))), "vectors is a masked array"),
        (lambda: Embeddings(np.ma.masked_array([1, 2], [0, 1]), np.eye(2)), "ids is a masked array"),
        (lambda: ScoresRun([1, 2], [3, 4], np.ma.masked_array(np.eye(2), np.eye(2))), "scores is a masked array"),
        (lambda: Embeddings([], np.empty((0, 3))), "at least one id"),
        (lambda: EmbeddingsRun(None, None), "neither"),
        (lambda: EmbeddingsRun(Embeddings([1], [[1.0, 2.0]]), Embeddings([2], [[1.0]])), "dimensions"),
        (lambda: ScoresRun(np.array(["1"]), np.array([2]), np.ones((1, 1))), "run, image_ids: has type <U1"),
        (lambda: ScoresRun(np.array([1]), np.array([2]), [[1.0], [1.0, 2.0]]), "rows of unequal length"),
        (lambda: ScoresRun(np.array([1]), np.array([2]), np.ones((1, 1), dtype=int)), r"scores\.astype\('float32'\)"),
        (lambda: RankingsRun.from_dicts(), "at least one direction"),
        (lambda: RankingsRun.from_dicts({}, {}), "i2t: holds no query"),
        (lambda: RankingsRun.from_dicts([[1, 2]]), "i2t: is a list; give a dict"),
        (lambda: RankingsRun.from_dicts({1.0: [2]}), "query id 1.0 is not a whole number"),
        (lambda: RankingsRun.from_dicts({"1": [2], 1: [3]}), "id 1 is in rows 0 and 1"),
        (lambda: RankingsRun.from_dicts({1: {2, 3}}), "need a list of whole-number ids"),
    ],
)
def test_arrays_and_dicts_are_checked_like_files(make, words):
    with pytest.raises(MalformedRun, match=words):
        make()


@pytest.mark.parametrize("thing", [np.eye(2), [1, 2], 3.5])
def test_what_is_no_run_is_refused(thing, report_of):
    with pytest.raises(MalformedRun, match="is not a run; read a file with load_run"):
        report_of(thing)


def test_no_pickle_is_ever_run(tmp_path):
    """The object would leave a mark on the disk."""

    class Marker:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "was run"),)

    for name in ("bare.npz", "run.pkl", "run.npz", "run.safetensors", "run.json", "run.parquet"):
        (tmp_path / name).write_bytes(pickle.dumps(Marker()))
        with pytest.raises(MalformedRun):
            ce.load_run(tmp_path / name)
    np.savez(tmp_path / "objects.npz", image_ids=np.array([Marker()], dtype=object))
    with pytest.raises(MalformedRun, match="never unpickled"):
        ce.load_run(tmp_path / "objects.npz")
    assert not (tmp_path / "was run").exists()


@pytest.mark.parametrize("form", ["arrays", "matrix"])
def test_an_npz_cut_anywhere_gives_no_number(form, good, tmp_path):
    path = tmp_path / "run.npz"
    np.savez(path, **getattr(good, form)())
    whole = path.read_bytes()
    for share in np.linspace(0, 1, 23, endpoint=False):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(MalformedRun, match="save it again"):
            ce.load_run(path)


def test_short_ranking_keeps_metrics_within_its_depth(good, sample_library):
    """The others are skipped with the depth that they need."""
    whole = ce.evaluate(**good.rankings(), data_dir=sample_library, confidence=None)
    short = ce.evaluate(**good.rankings(depth=7), data_dir=sample_library, confidence=None)
    assert short.scores.items() < whole.scores.items()
    assert {key for key in short.scores if "coco_5k" in key} == {
        f"coco_5k/{direction}/recall_at_{k}" for direction in ("i2t", "t2i") for k in (1, 5)
    }
    assert short.skipped["coco_5k/rsum"] == "needs i2t/recall_at_10 and t2i/recall_at_10 too"
    for key in whole.scores.keys() - short.scores.keys() - {"coco_5k/rsum"}:
        assert re.search(r"Rank (at least \d+ items|the whole gallery)", short.skipped[key])
