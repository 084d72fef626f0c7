"""Reports from a run file equal those of the run; what it cannot give is refused; damaged files are errors."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from label_files import random_pairs, write_label_file
from report_samples import near_run

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, MalformedRun, RunTooShallow, UnknownIds
from cxc_eccv.evaluation.kept import keep_run
from cxc_eccv.parquet import write_parquet
from cxc_eccv.runs import ScoresRun
from cxc_eccv.runs.kept import KEPT
from cxc_eccv.sources.library import Library

QUIET = {"progress": False}
NEW = ("coco", "cxc", "eccv", "mine")


def noisy_run(library):
    """Captions near their images, and some vectors twice, so that scores tie."""
    run = near_run(library, width=16)
    for side, every in ((run.images, 20), (run.captions, 30)):
        side.vectors[1::every] = side.vectors[::every][: len(side.vectors[1::every])]
    return replace(run, model="noisy")


@pytest.fixture(scope="module")
def library(tmp_path_factory, sample_library):
    file = tmp_path_factory.mktemp("labels") / "mine.parquet"
    return Library("sample", labels=[write_label_file(file, sample_library, *random_pairs(sample_library, number=40))])


@pytest.fixture(scope="module")
def kept(tmp_path_factory, sample_library):
    """A run file of lists of 20."""
    path = tmp_path_factory.mktemp("kept") / "noisy.run.parquet"
    keep_run(path, noisy_run(sample_library), data_dir=sample_library, depth=20, training_data=["web"], **QUIET)
    return path


def assert_equal_where_given(report, expected, *, ties=True):
    """What the report lacks; ties are those of known ranks, and of plausible matches those of all metrics together."""
    rows, wanted = ({row.key: row for row in each.results} for each in (report, expected))
    assert rows.keys() <= wanted.keys()
    for key, row in rows.items():
        if key.startswith("plausible_match"):
            assert row.value == wanted[key].value
        else:
            assert row == (wanted[key] if ties else replace(wanted[key], ties=row.ties))
    return sorted(wanted.keys() - rows.keys())


def test_a_report_of_known_positives_is_the_same(kept, sample_library):
    run = noisy_run(sample_library)
    report = ce.evaluate(ce.load_run(kept), data_dir=sample_library, **QUIET)
    lacking = assert_equal_where_given(report, ce.evaluate(run, data_dir=sample_library, **QUIET))
    reasons = {key: report.skipped[key if key in report.skipped else key.rpartition("/")[0]] for key in lacking}
    assert {key for key, reason in reasons.items() if "rated pairs" not in reason} == {
        "plausible_match/i2t/pmrp",
        "plausible_match/i2t/pmrp_at_50",
        "plausible_match/t2i/pmrp",
        "entailment/i2t/entail_at_30",
    }
    assert "needs 30 ranked items for its top 30, but its ranking holds 2" in reasons["entailment/i2t/entail_at_30"]
    assert any(row.ties for row in report.results)
    assert (report.name, report.training_data) == ("noisy", ("web",))
    deep = {"tasks": ["coco_5k", "eccv_caption"], "metrics": ["median_rank", "mrr", "map_at_r"], **QUIET}
    report, expected = (ce.evaluate(each, data_dir=sample_library, **deep) for each in (ce.load_run(kept), run))
    assert assert_equal_where_given(report, expected) == []


def test_new_positives_beyond_the_lists_are_refused_and_never_guessed(kept, library):
    options = {"data_dir": library, "sources": NEW, **QUIET}
    report, expected = (ce.evaluate(run, **options) for run in (ce.load_run(kept), noisy_run(library)))
    lacking = assert_equal_where_given(report, expected, ties=False)
    assert "coco_5k/i2t/recall_at_10" in report.scores
    assert {key.rpartition("/")[2] for key in lacking} == {"median_rank"}
    for metric, reason in (("recall_at_50", "Rank at least 50 items"), ("mean_rank", "Rank the whole gallery")):
        with pytest.raises(RunTooShallow, match=rf"of query .* ends at rank 2\d.*{reason}"):
            ce.evaluate(ce.load_run(kept), ["coco_5k/i2t"], metrics=[metric], **options)


def test_bounds_and_gains_look_no_deeper_than_the_lists(kept, sample_library):
    options = {"data_dir": sample_library, "bounds": True, **QUIET}
    report, expected = (ce.evaluate(run, **options) for run in (ce.load_run(kept), noisy_run(sample_library)))
    bounds = {row.key: row.bounds for row in report.results if row.bounds is not None}
    assert bounds.items() <= {row.key: row.bounds for row in expected.results}.items()
    assert {key.split("/")[1] for key in bounds} == {"i2t", "t2i", "rsum"}
    assert "ranking holds 0 of the gallery" in report.skipped["cxc/t2t/recall_at_1 bounds"]
    with pytest.raises(RunTooShallow, match="needs 10 ranked items for its top 10, but its ranking holds 0"):
        ce.evaluate(ce.load_run(kept), ["cxc/t2t"], data_dir=sample_library, metrics=["ndcg_at_10"], **QUIET)


def test_positives_of_label_files_are_known_when_they_are_there(tmp_path, library):
    run = noisy_run(library)
    keep_run(tmp_path / "a.run.parquet", run, data_dir=library, depth=5, **QUIET)
    options = {"data_dir": library, "sources": NEW, "metrics": ["median_rank", "r_precision", "recall_at_50"], **QUIET}
    report, expected = (ce.evaluate(each, **options) for each in (ce.load_run(tmp_path / "a.run.parquet"), run))
    assert assert_equal_where_given(report, expected) == []


def test_scores_keep_their_precision(tmp_path, sample_library):
    content, random = sample_library.karpathy("test"), np.random.default_rng(1)
    scores = 1 + 1e-12 * random.integers(0, 3000, (content.image_ids.size, content.caption_ids.size))
    run = ScoresRun(content.image_ids, content.caption_ids, scores)
    kept = keep_run(tmp_path / "a.run.parquet", run, data_dir=sample_library, depth=100, **QUIET)
    assert {lists.scores.dtype for lists in kept.lists.values()} == {np.dtype(np.float64)}
    options = {"data_dir": sample_library, "tasks": ["eccv_caption", "cxc/i2t"], **QUIET}
    assert assert_equal_where_given(ce.evaluate(kept, **options), ce.evaluate(run, **options)) == []


@pytest.mark.slow
def test_the_real_split_gives_the_same_report(tmp_path, real_library):
    run = noisy_run(real_library)
    kept = keep_run(tmp_path / "a.run.parquet", run, data_dir=real_library, **QUIET)
    report, expected = (ce.evaluate(each, data_dir=real_library, **QUIET) for each in (kept, run))
    lacking = [key for key in assert_equal_where_given(report, expected) if "spearman" not in key]
    assert lacking == ["plausible_match/i2t/pmrp", "plausible_match/t2i/pmrp"]
    assert any(row.ties for row in report.results)


def test_every_damaged_byte_and_every_cut_is_an_error(kept, tmp_path):
    content, path = kept.read_bytes(), tmp_path / "damaged.run.parquet"
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")  # of the pages
    for place in np.linspace(4, end - 1, 25).astype(int):
        path.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        with pytest.raises(MalformedRun):
            ce.load_run(path)
    for size in (0, 4, end // 2, end, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(MalformedRun):
            ce.load_run(path)


def put(name, change):
    def spoil(table):
        values = table[name].to_pylist()
        return table.set_column(table.column_names.index(name), name, pa.array(change(values), table[name].type))

    return spoil


def change_facts(**entries):
    def spoil(table):
        facts = json.loads(table.schema.metadata[KEPT.encode()]) | entries
        return table.replace_schema_metadata({**table.schema.metadata, KEPT.encode(): json.dumps(facts)})

    return spoil


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda table: table.drop_columns("above"), "lacks the columns above of a run file"),
        (put("positive_ids", lambda rows: [row[::-1] for row in rows]), "must increase within each query"),
        (put("above", lambda rows: [[-1] * len(row) for row in rows]), "above: needs 1 counts of at least 0"),
        (put("tied", lambda rows: [row[:-1] for row in rows]), "tied: needs 1 counts"),
        (put("gallery", lambda rows: [[9] for _ in rows]), "gallery: does not name one of 1 galleries"),
        (put("scores", lambda rows: [row[::-1] for row in rows]), "above the previous score"),
        (put("scores", lambda rows: [row[:-1] for row in rows]), "needs one score for each of item_ids"),
        (put("item_ids", lambda rows: [[row[0] for _ in row] for row in rows]), "lists item .* twice"),
        (change_facts(schema=2), "is a run file of schema 2, and this version reads 1"),
        (change_facts(galleries={}), "its galleries are None"),
        (change_facts(galleries=[]), "cxc_eccv_run in its metadata is damaged"),
    ],
)
def test_files_that_contradict_themselves(spoil, words, kept, tmp_path):
    path = tmp_path / "spoilt.run.parquet"
    write_parquet(spoil(pq.read_table(kept)), path)
    with pytest.raises(MalformedRun, match=words):
        ce.load_run(path)


def test_ids_of_another_edition_are_unknown(kept, sample_library, tmp_path):
    path = tmp_path / "strange.run.parquet"
    change = put("positive_ids", lambda rows: [[*row, 10**8] for row in rows])
    table = put("above", lambda rows: [[*row, 0] for row in rows])(change(pq.read_table(kept)))
    write_parquet(put("tied", lambda rows: [[*row, 1] for row in rows])(table), path)
    with pytest.raises(UnknownIds, match="the first: 100000000"):
        ce.evaluate(ce.load_run(path), data_dir=sample_library, **QUIET)


def test_only_whole_runs_are_kept(tmp_path, kept, sample_library):
    with pytest.raises(InvalidOption, match=r"name the run file NAME\.run\.parquet"):
        keep_run(tmp_path / "a.parquet", noisy_run(sample_library), data_dir=sample_library)
    with pytest.raises(InvalidOption, match="is rankings already"):
        keep_run(tmp_path / "a.run.parquet", ce.load_run(kept), data_dir=sample_library)
