"""A built folder loads with plain ``datasets``, this release and older ones, without this package."""

import json

import datasets
import pyarrow.parquet as pq
import pytest
from PIL import Image

from cxc_eccv.builders.dataset_config import BuildOptions
from cxc_eccv.builders.folder_writing import build_folder

pytestmark = pytest.mark.thorough

LOAD = """
import json, sys
import datasets
datasets.disable_progress_bars()
folder, told = sys.argv[1], {}
for name in datasets.get_dataset_config_names(folder):
    streams = datasets.load_dataset(folder, name, streaming=True)
    for split, rows in datasets.load_dataset(folder, name).items():
        streamed = streams[split]
        if "image" in rows.column_names:
            assert rows[0]["image"] is None and rows[-1]["image"].size == (16, 12)
            assert [row["image"] for row in streamed.take(1)] == [None]
            assert list(streamed)[-1]["image"].size == (16, 12)
            rows, streamed = rows.remove_columns("image"), streamed.remove_columns("image")
        assert list(streamed) == list(rows)
        assert streamed.features == rows.features == rows.info.features
        told[name + "/" + split] = list(rows)
        if name == "retrieval":
            assert [rows.features["direction"].int2str(code) for code in (0, 1, 2, 3)] == ["i2t", "t2i", "t2t", "i2i"]
            assert set(rows.unique("direction")) == {0, 1, 2, 3}
assert datasets.load_dataset(folder, split="test").column_names[0] == "image_id"
assert "cxc_eccv" not in sys.modules
print(json.dumps(told))
"""

FILES_ALONE = """
rows = datasets.load_dataset("parquet", data_files=sys.argv[1] + "/captions/test-*.parquet", split="train")
assert rows[1]["image"].size == (16, 12), rows.features
assert isinstance(rows[1]["captions"], list), rows.features
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory, sample_library):
    photographs = tmp_path_factory.mktemp("photographs")
    output = tmp_path_factory.mktemp("built") / "data"
    for split in ("validation", "test"):
        for name in sample_library.split(split).images["file_name"].to_pylist()[1:]:
            Image.new("RGB", (16, 12), "green").save(photographs / name)
    build_folder(output, data_dir="sample", splits=["val", "test"], images=photographs, progress=False)
    return output


def expected(output):
    told = {}
    for file in sorted(output.rglob("*.parquet")):
        table = pq.read_table(file)
        names = [name for name in table.column_names if name != "image"]
        told[f"{file.parent.name}/{file.name.partition('-')[0]}"] = table.select(names).to_pylist()
    return told


def test_it_loads_without_this_package(built, run_python):
    assert json.loads(run_python(LOAD + FILES_ALONE, built)) == expected(built)


def test_a_rebuilt_folder_is_never_served_stale(tmp_path):
    counts = []
    for lowest in (3.0, 5.0, 3.0):
        options = BuildOptions(sts=lowest)
        build_folder(tmp_path / "data", configs=["sts"], data_dir="sample", options=options, progress=False)
        rows = datasets.load_dataset(str(tmp_path / "data"), split="test", cache_dir=str(tmp_path / "cache"))
        counts.append(sum(rows["positive"]))
    assert counts[0] == counts[2] > counts[1] > 0


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("release", ["3.6.0", "4.0.0"])
def test_it_loads_with_older_releases(built, run_python, environment, release):
    python = environment(f"datasets=={release}", "pillow")
    assert json.loads(run_python(LOAD + FILES_ALONE, built, python=python)) == expected(built)
