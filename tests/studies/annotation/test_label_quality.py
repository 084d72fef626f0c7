"""``cxc-eccv label-quality``: what a person sees, and the files."""

import json
import sys

import pytest
from annotated_projects import pairs_of, save_runs
from label_files import write_label_file

from cxc_eccv.cli.app import main
from cxc_eccv.studies.annotation.project import Project

pytestmark = pytest.mark.thorough


@pytest.fixture
def show(capsys, monkeypatch):
    """What the command prints on a terminal of 80 columns, and its exit status."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["label-quality", *map(str, arguments), "--data-dir", "sample"])
        shown = capsys.readouterr()
        return shown.out + shown.err, ended.value.code

    return run


@pytest.fixture
def models(tmp_path, sample_library):
    return save_runs(tmp_path, sample_library, seeds=(0, 1))


def rows_of(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.reference
def test_tables_2_and_3_of_the_real_files(capsys, real_library, tmp_path):
    """What follows from the files: Table 3 as printed; of Table 2 the recall against all that ECCV Caption lists."""
    with pytest.raises(SystemExit) as ended:
        main(["label-quality", "--data-dir", str(real_library.data_dir), "--output", str(tmp_path)])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for row in (
        "coco 1,332 1.00 1,332 1.00 [1.00, 1.00] 1 / 1 / 1 1",
        "cxc 1,895 1.42 1,332 1.42 [1.38, 1.46] 1 / 1 / 2 5",
        "eccv 11,279 8.47 1,332 8.47 [8.28, 8.67] 6 / 8 / 10 19",
        "coco 6,305 1.00 1,261 5.00 [5.00, 5.00] 5 / 5 / 5 5",
        "cxc 8,906 1.41 1,261 7.06 [6.94, 7.17] 5 / 7 / 8 16",
        "eccv 22,550 3.58 1,261 17.88 [17.53, 18.21] 14 / 17 / 21 48",
        "coco 13.6 [13.2, 14.0] 1,332 0",
        "plausible_0 36.6 [34.5, 38.6] 1,323 9",
        "coco 31.3 [30.7, 31.9] 1,261 0",
    ):
        assert row in rows_of(text)
    content = json.loads((tmp_path / "labels.json").read_text())
    assert [row["counts"]["n_positives"] for row in content["counts"] if row["labels"] == "eccv"] == [11279, 22550]


def test_without_a_model(show, tmp_path):
    text, status = show("--output", tmp_path / "out")
    assert status == 0
    assert "Positive images, t2i, test split, queries of eccv" in text
    assert "Precision and recall against cxc, i2t" in text
    assert "Not computed: diversity: it needs the files of at least two models." in text
    files = ("labels.json", "labels.html")
    assert f"wrote {tmp_path / 'out'}/: {', '.join(files)}" in " ".join(text.split())
    before = [(tmp_path / "out" / name).read_bytes() for name in files]
    assert show("--output", tmp_path / "out")[1] == 0
    assert [(tmp_path / "out" / name).read_bytes() for name in files] == before
    assert json.loads(before[0])["provenance"]["command"] == "cxc-eccv label-quality --data-dir sample"


def test_sets_models_and_preferences(show, models, tmp_path):
    own = ["--split", "val", "--sources", "coco,cxc", "--sources", "plausible_1", "--queries", "cxc"]
    text, status = show(*own)
    assert (status, "validation split, queries of cxc" in text) == (0, True)
    assert {row.split()[0] for row in rows_of(text) if row[:2] in ("co", "pl")} == {"coco,cxc", "plausible_1"}
    (tmp_path / "choices.csv").write_text("winner,loser,count\nA,B,30\nB,A,10\n")
    text, status = show(*models, "--sources", "coco", "--preferences", tmp_path / "choices.csv")
    assert status == 0
    assert "Queries where the row's first item is in the column's top 25, i2t" in text
    assert "Not computed: bias: no annotation project was given" in text
    assert any(row.startswith("A 75.00 [") for row in rows_of(text))


def test_a_project_with_its_models(show, models, tmp_path, sample_library, capsys):
    """From proposals to bias, through the commands; without labels it says what makes them."""
    folder = tmp_path / "doubts"
    command = ["annotate", "propose", folder, *models, "--queries", "20,40", "--sources", "coco"]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, command), "--data-dir", "sample"])
    assert ended.value.code == 0, capsys.readouterr().err
    text, status = show(*models, "--project", folder)
    assert status == 2
    assert "cxc-eccv annotate merge writes" in text
    project = Project.open(folder, sample_library)
    pairs = sorted(pairs_of(project.candidates))
    gains = [float(place % 3 == 0) for place in range(len(pairs))]
    write_label_file(folder / "labels.parquet", sample_library, pairs, gains, name="doubts")
    text, status = show(*models, "--project", folder, "--sources", "coco", "--output", tmp_path / "out")
    assert status == 0
    for title in ("Precision and recall against doubts, t2i", "Bias of the annotators, i2t", "Gain from joining"):
        assert title in text
    assert "Not computed: bias" not in text
    content = json.loads((tmp_path / "out" / "labels.json").read_text())
    first, other, both = (row["annotators"] for row in content["bias"][0]["sets"])
    assert (first, other, both) == (["model-0"], ["model-1"], ["model-0", "model-1"])
