"""Tables that we write have a checksum for every page."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cxc_eccv as ce
from cxc_eccv.builders.output import write_shards
from cxc_eccv.report.saving import write_folder
from cxc_eccv.runs import RankingsRun


def page_is_checked(path):
    """Whether a value changed within a page is noticed by its checksum."""
    data = path.read_bytes()
    chunk = pq.read_metadata(path).row_group(0).column(0)
    last = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1
    path.write_bytes(data[:last] + bytes([data[last] ^ 1]) + data[last + 1 :])
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        pq.read_table(path, page_checksum_verification=True)
    return True


def test_tables_are_written_with_checksums(tmp_path, make_run, sample_library):
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    from cxc_eccv.runs.rankings import write_rankings

    write_rankings(tmp_path / "top.parquet", RankingsRun.from_dicts(i2t={1: [7, 8]}))
    assert page_is_checked(tmp_path / "top.parquet")
    shards = write_shards([pa.table({"n": [1, 2, 3]})], tmp_path, "test")
    write_folder(tmp_path, ce.evaluate(make_run(sample_library), "coco_5k", data_dir=sample_library, per_query=True))
    for name in (shards.files[0], "per_query.parquet"):
        assert page_is_checked(tmp_path / name), name
