"""``cxc-eccv compare`` as a user meets it."""

import json
import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxc_eccv.cli import main
from cxc_eccv.comparison.published import eccv_caption_table
from cxc_eccv.evaluation import report_to_json
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.types import Embeddings, Report, Result

pytestmark = pytest.mark.thorough

DATA = {"edition": "official", "version": "1", "fingerprint": "f", "files": {}}
KEYS = tuple(key for key in eccv_caption_table().keys if key.count("/") == 2)
PLACED = ["compare.json", "compare.md", "compare.tex", "placements.csv"]
PUBLISHED = ["published_cxc.csv", "published_eccv_caption.csv"]


@pytest.fixture
def run(monkeypatch, capsys):
    """Exit status, standard output and standard error of one command."""

    def command(*arguments, name="compare"):
        monkeypatch.setattr(sys, "argv", ["cxc-eccv", name, *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        shown = capsys.readouterr()
        return exit_.value.code or 0, shown.out, shown.err

    return command


@pytest.fixture
def write(tmp_path):
    """Write a model's report and per-query values, and give the report's path."""

    def written(name, share, *, per_query=True, keys=KEYS, **facts):
        random = np.random.default_rng(0)
        rows, tables = [], []
        for key in keys:
            task, direction, metric = key.split("/")
            values = (random.random(400) < share).astype(float)
            rows.append(Result(task, direction, metric, float(values.mean()), 400))
            labels = {"task": [task] * 400, "direction": [direction] * 400, "metric": [metric] * 400}
            ids = {"query_id": np.arange(400), "cluster": np.arange(400) // 2}
            tables.append(pa.table({**ids, **labels, "value": values}))
        folder = tmp_path / name
        folder.mkdir()
        report = Report(tuple(rows), {}, {"split": "test", "data": DATA} | facts)
        (folder / "report.json").write_text(report_to_json(report))
        if per_query:
            pq.write_table(pa.concat_tables(tables), folder / "per_query.parquet")
        return folder / "report.json"

    return written


def test_two_reports_are_compared(run, write, tmp_path):
    status, out, _ = run(write("old", 0.4), write("new", 0.6), "--all-metrics", "--output", tmp_path / "out")
    assert status == 0
    assert "new against old" in out
    assert "i2t mAP@R" in out
    found = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert (found["baseline"], found["models"], found["settings"]["tests"]) == ("old", ["new"], len(KEYS))
    assert {row["key"] for row in found["differences"]} == set(KEYS)
    assert all(row["difference"] > 0 and row["p_holm"] >= row["p_value"] for row in found["differences"])
    assert any(row["significant"] for row in found["differences"])
    assert "published" not in found


def test_the_same_command_gives_the_same_file(run, write, tmp_path):
    reports = write("old", 0.4), write("new", 0.5)
    for name in ("one", "two"):
        run(*reports, "--samples", 300, "--output", tmp_path / name)
    assert (tmp_path / "one" / "compare.json").read_bytes() == (tmp_path / "two" / "compare.json").read_bytes()


def test_a_model_is_placed_among_published_ones_without_per_query_values(run, write, tmp_path):
    path = write("mine", 0.5, per_query=False)
    status, out, _ = run(path.parent, "--published", "--no-chart", "--output", tmp_path / "out")
    assert status == 0
    assert "of 26" in out
    assert "Chun et al." in out
    published = json.loads((tmp_path / "out" / "compare.json").read_text())["published"]
    assert {source["name"] for source in published["sources"]} == {"eccv_caption", "cxc"}
    assert {one["key"] for one in published["placements"] if one["table"] == "eccv_caption"} > set(KEYS)
    assert len(published["agreement"]["tau"]) == 12


def test_the_chart_of_ranks_is_written(run, write, tmp_path):
    pytest.importorskip("matplotlib", reason="the report extra is not installed")
    _, out, _ = run(write("mine", 0.5), "--published", "--output", tmp_path / "out")
    charts = ["published_ranks.png", "published_ranks.svg"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*PLACED, *charts])
    assert "published_ranks.svg" in out
    status, _, err = run(write("few", 0.5, keys=("cxc/t2t/recall_at_1",)), "--published", "--output", tmp_path / "out")
    assert status == 0
    assert "no chart of ranks" in err


def test_without_matplotlib_all_but_the_chart_is_written(run, write, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, err = run(write("mine", 0.5), "--all-published", "--output", tmp_path / "out")
    assert (status, "of 26" in out) == (0, True)
    assert "no chart of ranks: it needs matplotlib, which is not installed: pip install 'cxc_eccv[report]'" in err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*PLACED, *PUBLISHED])


def test_errors_are_one_message_and_status_2(run, write, tmp_path):
    old, bare = write("old", 0.4), write("bare", 0.5, per_query=False)
    validation = write("validation", 0.5, split="validation")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for arguments, part in (
        ((old,), "--published"),
        ((old, bare), "no per_query.parquet beside it"),
        ((old, validation), "the split is 'test' for old and 'validation' for validation"),
        ((old, tmp_path / "absent.json"), "absent.json: cannot be read"),
        ((old, broken), "broken.json: not a report.json"),
        ((old, old), "2 reports need as many different names"),
        ((old, bare, "--names", "one"), "2 reports need as many different names"),
        ((validation, "--published"), "split is 'validation', theirs is 'test'"),
    ):
        status, _, err = run(*arguments)
        assert status == 2
        assert part in err
        assert "Traceback" not in err


def test_names_are_those_of_the_models_the_folders_or_given(run, write):
    reports = write("old", 0.4), write("new", 0.5)
    assert "B against A" in run(*reports, "--names", "A,B", "--samples", 100)[1]
    assert "new against old" in run(*reports, "--samples", 100)[1]
    for names, shown in ((("CLIP", "SigLIP"), "SigLIP against CLIP"), (("CLIP", "CLIP"), "new against old")):
        for report, name in zip(reports, names, strict=True):
            content = json.loads(report.read_text())
            report.write_text(json.dumps(content | {"provenance": content["provenance"] | {"model": name}}))
        assert shown in run(*reports, "--samples", 100)[1]


@pytest.fixture
def evaluated(run, sample_library, tmp_path):
    """Evaluate a model that places captions near their images, with so much noise, and give its report's path."""
    content = sample_library.karpathy("test")
    place = {image: row for row, image in enumerate(content.image_ids.tolist())}
    rows = [place[image] for image in content.caption_image_ids.tolist()]

    def scored(name, noise, *options):
        random = np.random.default_rng(0)
        images = random.standard_normal((content.image_ids.size, 16))
        captions = images[rows] + noise * random.standard_normal((len(rows), 16))
        sides = Embeddings(content.image_ids, images), Embeddings(content.caption_ids, captions)
        save_embeddings(tmp_path / f"{name}.npz", EmbeddingsRun(*sides))
        arguments = (tmp_path / f"{name}.npz", "--data-dir", "sample", "--output", tmp_path / name, *options)
        status, _, err = run(*arguments, name="evaluate")
        assert status == 0, err
        return tmp_path / name / "report.json"

    return scored


def test_two_evaluated_runs_are_compared(run, evaluated, tmp_path):
    old, new = evaluated("old", 2.0), evaluated("new", 0.5)
    status, out, _ = run(old, new, "--all-metrics", "--data-dir", "sample", "--output", tmp_path / "out")
    assert (status, "new.npz against old.npz" in out) == (0, True)
    found = json.loads((tmp_path / "out" / "compare.json").read_text())
    scores = [json.loads(path.read_text())["scores"] for path in (old, new)]
    for row in found["differences"]:
        assert row["difference"] == pytest.approx(scores[1][row["key"]] - scores[0][row["key"]], abs=1e-12)
    by_key = {row["key"]: row for row in found["differences"]}
    assert {"coco_5k/t2i/recall_at_1", "cxc/t2t/recall_at_5", "eccv_caption/i2t/map_at_r"} <= set(by_key)
    assert by_key["coco_5k/t2i/recall_at_1"]["significant"]
    assert by_key["coco_5k/t2i/recall_at_1"]["low"] > 0
    assert "not compared: cxc/sts/bootstrap_spearman" in " ".join(out.split())


def test_evaluated_runs_that_cannot_be_compared_are_refused(run, evaluated, tmp_path):
    """Another edition, split, protocol, or values of another model."""
    old = evaluated("old", 2.0, "--tasks", "entailment,cxc")
    policy = evaluated("policy", 2.0, "--tasks", "entailment", "--unjudged", "leave_out")
    changed, mixed = shutil.copytree(old.parent, tmp_path / "changed"), shutil.copytree(old.parent, tmp_path / "mixed")
    facts = json.loads(old.read_text())
    name = next(iter(facts["provenance"]["data"]["files"]))
    facts["provenance"]["data"]["files"][name] = facts["provenance"]["data"]["fingerprint"] = "0" * 64
    (changed / "report.json").write_text(json.dumps(facts))
    better = evaluated("better", 0.5, "--tasks", "entailment,cxc")
    shutil.copy(better.with_name("per_query.parquet"), mixed)
    for other, part in (
        (changed, f"old and changed cannot be compared: the hash of {name} is"),
        (policy, "parameters of entailment/i2t/entail_at_1 is"),
        (mixed, "mixed: per_query.parquet does not belong to report.json"),
    ):
        status, out, err = run(old, other, "--data-dir", "sample")
        assert (status, out) == (2, "")
        assert part in err
