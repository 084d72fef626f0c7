"""``cxc-eccv annotate simulate``: tables, files and a chart of both experiments, and what is refused."""

import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import cxc_eccv
from cxc_eccv.cli import main
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.studies.annotation.pages.simulated import FILES, _draw_line
from cxc_eccv.types import Embeddings

SAMPLE = Path(cxc_eccv.__file__).parent / "sample"
QUICK = ("--seeds", "2", "--rounds", "2", "--budget", "36")


@pytest.fixture
def run(capsys, monkeypatch):
    """Status, output and errors of the command on the sample."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments, data_dir="sample"):
        with pytest.raises(SystemExit) as ended:
            main(["annotate", "simulate", *map(str, arguments), "--data-dir", str(data_dir)])
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return call


def rows_of(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.fixture
def captions_alone(tmp_path, sample_library):
    content = sample_library.karpathy("test")
    vectors = [[len(text), text.count("a"), 1.0] for text in content.captions["text"].to_pylist()]
    save_embeddings(tmp_path / "letters.npz", EmbeddingsRun(None, Embeddings(content.caption_ids, vectors)))
    return tmp_path / "letters.npz"


def test_rounds_are_told_and_kept(run, tmp_path):
    pytest.importorskip("matplotlib", reason="the report extra is not installed")
    arguments = (*QUICK, "--strategies", "random,eccv", "--price", "2", "--minutes", "10", "--output")
    status, out, err = run(*arguments, tmp_path / "one")
    assert (status, err) == (0, "")
    assert run(*arguments, tmp_path / "again")[0] == 0
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted(FILES)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    content = json.loads((tmp_path / "one" / "simulation.json").read_text())
    assert content["sheet"] == {"questions": 20, "dollars": 2, "minutes": 10}
    assert content["provenance"]["command"].startswith("cxc-eccv annotate simulate --seeds 2")
    assert [(row["strategy"], row["round"]) for row in content["results"]] == [
        (name, number) for name in ("random", "eccv") for number in (1, 2)
    ]
    assert len(content["counts"]) == 2 * 2 * 2
    last = content["results"][-1]
    own = [row for row in content["counts"] if (row["strategy"], row["round"]) == ("eccv", 2)]
    questions, found = (sum(row[name] for row in own) for name in ("questions", "found"))
    assert last["cost"][0] == questions / found
    assert last["recall"][0] == found / (2 * 315)
    (line,) = [row for row in rows_of(out) if row.startswith(f"round 2 {questions / found:.1f} ")]
    assert line.split("] ")[1].split()[:2] == [f"{questions / found * each / 20:.2f}" for each in (2, 10)]
    assert "A sheet of 20 questions costs 2 dollars and takes 10 minutes." in " ".join(out.split())
    page = (tmp_path / "one" / "simulation.md").read_text()
    assert page.startswith("### Found\n\nAnnotation of the validation split, simulated.\n")
    assert "dollars" in page


def test_hidden_positives_are_looked_for_by_files_and_names(run, captions_alone, tmp_path):
    arguments = ("--hide", "eccv", captions_alone, "tfidf", "overlap", "noise", "--seeds", "2", "--questions", "40,200")
    status, out, err = run(*arguments, "--output", tmp_path / "out")
    assert (status, err) == (0, "")
    content = json.loads((tmp_path / "out" / "simulation.json").read_text())
    assert content["provenance"]["models"] == ["letters", "tfidf", "overlap", "noise"]
    assert {row["strategy"] for row in content["results"]} == {"random", "eccv", "disagreement", "bounds"}
    found = {(row["strategy"], row["questions"]): row["found"] for row in content["results"]}
    assert found["eccv", 200] > 3 * found["random", 200]
    assert "is unknown, not negative" in " ".join(out.split())
    assert all(row["precision"] is None for row in content["results"])


def test_probabilities_bring_uncertainty(run, tmp_path, sample_library):
    content = sample_library.karpathy("test")
    rows = [f"{content.image_ids[0]},{caption},0.5" for caption in content.caption_ids[5:]]
    (tmp_path / "chances.csv").write_text("\n".join(["image_id,caption_id,probability", *rows]))
    options = ("--hide", "eccv", "tfidf", "--strategies", "uncertainty", "--probabilities", tmp_path / "chances.csv")
    status, out, _ = run(*options, "--seeds", "1", "--questions", "20")
    assert status == 0
    assert "uncertainty" in out
    both = ("--hide", "eccv", "tfidf", "overlap", "--probabilities", tmp_path / "chances.csv", "--seeds", "1")
    assert "uncertainty" in run(*both, "--questions", "20")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--hide", "cxc", "tfidf"), "eccv"),
        (("--hide", "eccv"), "name the models that look for hidden labels: files, or tfidf overlap"),
        (("tfidf",), "with --hide eccv name any"),
        (("--hide", "eccv", "tfidf", "--rounds", "2", "--price", "1"), "--rounds, --price: not read with --hide"),
        (("--share", "0.4"), "--share: not read without --hide"),
        (("--error-rates", "0.1,often"), "--error-rates 0.1,often: give numbers, divided by commas"),
        (("--error-rates", "0.1,0.1,-1"), "error rate -1.0: how often somebody errs is between 0 and 1"),
        (("--strategies", "disagrement"), "disagreement"),
        (("--price", "-1"), "price=-1.0"),
        (("--split", "dev"), "dev"),
        (("--rule", "plurality"), "majority"),
        (("--hide", "eccv", "nothing.npz"), "nothing.npz"),
        (("--hide", "eccv", "tfidf", "--questions", "5"), "questions"),
        (("--hide", "eccv", "tfidf", "--strategies", "disagreement"), "strategy disagreement takes at least 2"),
    ],
)
def test_refused_calls(run, arguments, message):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_rounds_need_data_whose_truth_is_known(run, tmp_path):
    shutil.copytree(SAMPLE, tmp_path / "data")
    (tmp_path / "data" / "truth.json").unlink()
    catalog = tmp_path / "data" / "catalog.toml"
    catalog.write_text(re.sub(r"\[entries\.truth\].*?\n\n", "", catalog.read_text(), flags=re.DOTALL))
    status, _, err = run(data_dir=tmp_path / "data")
    assert status == 2
    assert "simulate rounds on the sample (--data-dir sample), or hide labels that are known" in " ".join(err.split())


def test_without_matplotlib_all_but_the_chart_is_written(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = run(*QUICK, "--strategies", "random", "--output", tmp_path / "out")
    assert status == 0
    assert "no chart: it needs matplotlib, which is not installed: pip install 'cxc_eccv[report]'" in err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["simulation.json", "simulation.md"]


def test_error_bars_are_of_the_unit_of_the_line():
    drawn = []
    axes = SimpleNamespace(errorbar=lambda x, y, spans, **_: drawn.append((x, y, spans)))
    rows = [{"questions": 10, "share": (0.5, 0.25, 1.0)}, {"questions": 20, "share": (0.5, None, None)}]
    _draw_line(axes, [*rows, {"questions": 30, "share": None}], "share", 100.0, {})
    assert drawn == [([10, 20], [50.0, 50.0], [[25.0, 0.0], [50.0, 0.0]])]
