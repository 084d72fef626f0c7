"""The sample photographs of the mirror folder embed and load as images."""

from pathlib import Path

import datasets
import pytest

from cxc_eccv.builders.folder_writing import build_folder


@pytest.fixture
def photographs(real_library):
    folder = Path(real_library.data_dir) / "coco" / "images_sample"
    if not folder.is_dir():
        pytest.skip("CXC_ECCV_DATA holds no coco/images_sample")
    return folder


def test_all_43_embed_byte_for_byte_and_load(photographs, real_library, tmp_path):
    output = tmp_path / "data"
    options = {"configs": ["captions"], "splits": ["val", "test"], "data_dir": real_library.data_dir}
    summary = build_folder(output, images=photographs, progress=False, **options)
    found = {part.split: part.images_found for part in summary.splits}
    assert found == {"validation": 22, "test": 21}
    assert [part.images_missing for part in summary.splits] == [4978, 4979]
    loaded = datasets.load_dataset(str(output), cache_dir=str(tmp_path / "cache"))
    stored = {}
    for rows in loaded.values():
        pictured = rows.filter(lambda row: row["image"] is not None, keep_in_memory=True)
        assert all(min(row["image"].size) > 200 for row in pictured)
        raw = pictured.cast_column("image", datasets.Image(decode=False))
        stored |= {row["file_name"]: row["image"]["bytes"] for row in raw}
    assert stored == {path.name: path.read_bytes() for path in photographs.glob("*.jpg")}
    assert len(stored) == 43
