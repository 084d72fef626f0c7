"""The tool that makes weak positives of known truth, checks files against it, and compares training by them."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cxc_eccv.hashing import hash_content
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_mined


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "tools")
    import weak_positives

    return weak_positives


def pairs_of(path):
    table = read_mined(path).table
    return set(zip(table["image_id"].to_pylist(), table["caption_id"].to_pylist(), strict=True))


def test_true_pairs_follow_the_drawn_scenes(tool, tmp_path, capsys):
    """They leave out the captions of the image itself."""
    path = tmp_path / "true.parquet"
    tool.main(["true", "--output", str(path)])
    library = Library("sample", mined=[path])
    content = library.split("train")
    assert library.split("train").mined().table.num_rows == len(pairs_of(path)) == 232
    own = set(zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True))
    assert not own & pairs_of(path)
    true, false = tool.true_pairs("train")
    assert len(true) + len(false) == len(content.image_ids) * len(own) - len(own)
    tool.main(["check", str(path)])
    assert "precision 100.0  recall 100.0" in capsys.readouterr().out


def test_a_file_is_measured_against_the_truth(tool, tmp_path, capsys):
    path = tmp_path / "mixed.parquet"
    tool.main(["true", "--precision", "0.8", "--output", str(path)])
    true, _ = tool.true_pairs("train")
    right = len(pairs_of(path) & true)
    assert (right, len(pairs_of(path))) == (232, 290)
    half = sorted(true)[:116] + sorted(pairs_of(path) - true)
    tool.write(tmp_path / "half.parquet", Library("sample"), "train", half, "half of it")
    capsys.readouterr()
    tool.main(["check", str(tmp_path / "half.parquet")])
    assert capsys.readouterr().out.splitlines()[1] == "precision 66.7  recall 50.0"


def test_rated_pairs_reach_3_on_other_images(tool, tmp_path, sample_library):
    path = tmp_path / "rated.parquet"
    tool.main(["rated", "--data-dir", "sample", "--split", "validation", "--output", str(path)])
    content = sample_library.split("validation")
    home = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    rated = sample_library.split("validation").ratings("sits").to_pylist()
    pairs = {(row["right_id"], row["left_id"]) for row in rated if row["rating"] >= 3}
    assert pairs_of(path) == {(image, caption) for image, caption in pairs if home[caption] != image}
    assert len(pairs_of(path)) > 10


def test_scores_are_compared_seed_by_seed(tool, tmp_path, monkeypatch, capsys):
    asked = []

    def train(folder, options):
        asked.append((folder.name, "--weak-positives" in options, options[-2:]))
        arm, _, seed = folder.name.rpartition("_")
        gain = {"0": 0.02, "1": 0.06}[seed] if arm == "with_weak" else 0
        return dict.fromkeys(tool.SHOWN.values(), 0.5 + int(seed) / 10 + gain)

    monkeypatch.setattr(tool, "train", train)
    tool.main(
        ["compare", str(tmp_path / "weak.parquet"), "--seeds", "2", "--output", str(tmp_path), "--", "--alpha", "1"]
    )
    assert asked == [
        ("without_0", False, ["--seed", "0"]),
        ("with_weak_0", True, ["--seed", "0"]),
        ("without_1", False, ["--seed", "1"]),
        ("with_weak_1", True, ["--seed", "1"]),
    ]
    spread = stats.t.ppf(0.975, 1) * np.std([2, 6], ddof=1) / np.sqrt(2)
    assert f"| Entail@5 | 55.0 | 59.0 | +4.0 ± {spread:.1f} |" in capsys.readouterr().out


def test_trained_model_is_reused_only_if_equal(tool, tmp_path):
    weak = tmp_path / "weak.parquet"
    weak.write_bytes(b"one")
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.json").write_text(json.dumps({"scores": {"a": 0.5}}))
    options = ["--no-such-option", str(weak)]
    with pytest.raises(SystemExit, match="is of other options or another file"):
        tool.train(tmp_path, options)
    (tmp_path / "made_of.json").write_text(json.dumps(["--no-such-option", hash_content(weak)]))
    assert tool.train(tmp_path, options) == {"a": 0.5}
    weak.write_bytes(b"two")
    with pytest.raises(SystemExit, match="is of other options or another file"):
        tool.train(tmp_path, options)


def test_one_seed_has_no_interval(tool, tmp_path):
    with pytest.raises(SystemExit, match="takes at least 2"):
        tool.main(["compare", str(tmp_path / "weak.parquet"), "--seeds", "1", "--output", str(tmp_path)])
