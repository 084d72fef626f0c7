"""``cxc-eccv compare`` as a user meets it."""

import json
from xml.etree import ElementTree

import pytest

from cxc_eccv.comparison.published import eccv_caption_table
from cxc_eccv.types.training_data import FROM_CARD

pytestmark = pytest.mark.thorough

SVG = "{http://www.w3.org/2000/svg}"
CHARTED = (("coco_5k", "recall_at_1"), ("eccv_caption", "map_at_r"))


def test_the_same_command_gives_the_same_file(run, write, tmp_path):
    reports = write("old", 0.4), write("new", 0.5)
    for name in ("one", "two"):
        run("compare", *reports, "--samples", 300, "--output", tmp_path / name)
    assert (tmp_path / "one" / "compare.json").read_bytes() == (tmp_path / "two" / "compare.json").read_bytes()


def test_model_without_query_values_joins_published_ones(run, write, tmp_path):
    """A report without values of queries is compared with the published models by its scores alone."""
    path = write("mine", 0.5, per_query=False)
    status, out, _ = run("compare", path.parent, "--published", "--output", tmp_path / "out")
    assert status == 0
    assert "Chun et al." in out
    assert "Ilharco et al." in out
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == [
        "compare.html",
        "compare.json",
        "compare.md",
        "compare.tex",
        "published.csv",
    ]
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "Your models among published ones" in page
    assert page.count("<table") == 6
    published = json.loads((tmp_path / "out" / "compare.json").read_text())["published"]
    assert {paper["name"]: len(paper["models"]) for paper in published} == {
        "eccv_caption": 26,
        "cxc": 15,
        "open_clip": 122,
        "pcme_plus_plus": 16,
        "char_gru": 10,
        "entailment": 7,
    }
    (mine,) = (row for row in published[0]["models"] if not row["published"])
    assert set(mine["values"]) > {key for key in eccv_caption_table().keys if key.count("/") == 2}


def test_model_trained_on_benchmark_collection_is_marked(run, write, tmp_path):
    card = {"trained_on": ["s2orc", "coco"], "trained_on_from": FROM_CARD}
    for name, facts in {"seen": card, "plain": {"trained_on": ["web"]}}.items():
        write(name, 0.5, per_query=False, model=name, **facts)
    reports = [tmp_path / "seen", tmp_path / "plain"]
    shown = " ".join(run("compare", reports[0], "--published", "--output", tmp_path / "out")[1].split())
    assert "† seen was trained on s2orc, COCO (split not stated); its card lists these, perhaps not all. " in shown
    assert "seen †" in shown
    published = json.loads((tmp_path / "out" / "compare.json").read_text())["published"]
    trained_on = {row["model"]: row["trained_on"] for row in published[0]["models"] if row["trained_on"]}
    assert trained_on == {"seen": "s2orc, COCO (split not stated); its card lists these, perhaps not all"}
    assert "†" not in run("compare", reports[1], "--published")[1]


def test_console_beside_files_does_not_name_output(run, write, tmp_path):
    reports = [write("old", 0.4), write("new", 0.5), "--published", "--samples", 100]
    assert run("compare", *reports)[1].count("With --output") == 1 + 6
    assert "With --output" not in run("compare", *reports, "--output", tmp_path / "out")[1]


def test_published_rank_of_suspect_model_is_doubted(run, write, tmp_path):
    sentence = "Positives rank as in a random order."
    mine = write("mine", 0.001, doubts={"random": sentence})
    doubt = f"Check mine first: {sentence}"
    out = run("compare", mine, "--published", "--output", tmp_path / "out")[1]
    folder = tmp_path / "out"
    assert " ".join(out.split()).count(doubt) == 1
    assert (folder / "compare.md").read_text().count(doubt) == 1
    assert (folder / "compare.html").read_text().count(doubt) == 2  # below the chart's heading, and below a table
    assert (folder / "compare.tex").read_text().count(f"% {doubt}\n") == 1
    published = json.loads((folder / "compare.json").read_text())["published"]
    assert all(paper["doubts"] == {"mine": [sentence]} for paper in published)
    out = run("compare", mine, write("new", 0.5), "--published", "--samples", 100)[1]
    assert " ".join(out.split()).count(doubt) == 1


REFUSED = {
    "one-report": ("old", "--published"),
    "no-values-of-queries": ("old bare", "no per_query.parquet beside it"),
    "other-split": ("old validation", "the split is 'test' for old and 'validation' for validation"),
    "no-such-file": ("old absent.json", "absent.json. Name a folder"),
    "no-report": ("old broken.json", "broken.json is not a report.json"),
    "report-twice": ("old old/report.json", "the same report is given twice: "),
    "file-of-a-model": ("old run.npz", "run.npz --output DIR, then name DIR"),
    "one-name-for-two": ("old bare --name one", "give --name once for each report"),
    "published-of-other-split": ("validation --published", "on the validation split of the edition 'official'"),
    "agreement-of-two": ("old new --agreement", "at least 3 models"),
    "agreement-with-published": ("old new --agreement --published", "leave out one of the two"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_cannot_be_compared_is_refused(run, write, tmp_path, monkeypatch, fault):
    monkeypatch.chdir(tmp_path)
    write("old", 0.4)
    write("new", 0.5)
    write("bare", 0.5, per_query=False)
    write("validation", 0.5, split="validation")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "run.npz").write_bytes(b"\xd8")
    words, message = REFUSED[fault]
    status, out, err = run("compare", *words.split())
    assert (status, out) == (2, "")
    assert message in err


def test_model_names_come_from_option_report_or_folder(run, write):
    """Given names go first; names of folders tell models of one name apart."""
    reports = write("old", 0.4), write("new", 0.5)
    assert "B against A" in run("compare", *reports, "--name", "A", "--name", "B", "--samples", 100)[1]
    assert "new against old" in run("compare", *reports, "--samples", 100)[1]
    for names, shown in ((("CLIP", "SigLIP"), "SigLIP against CLIP"), (("CLIP", "CLIP"), "new against old")):
        reports = write("old", 0.4, model=names[0]), write("new", 0.5, model=names[1])
        assert shown in run("compare", *reports, "--samples", 100)[1]


def test_two_evaluated_runs_are_compared(run, evaluated, tmp_path):
    old = evaluated("old", 2.0)
    new = evaluated("new", 0.5)
    status, out, _ = run("compare", old, new, "--all-metrics", "--output", tmp_path / "out")
    assert (status, "new.npz against old.npz" in out) == (0, True)
    found = json.loads((tmp_path / "out" / "compare.json").read_text())
    facts = found["baseline"], found["models"], found["settings"]["tests"], "published" in found
    assert facts == ("old.npz", ["new.npz"], len(found["differences"]), False)
    scores = [json.loads(path.read_text())["scores"] for path in (old, new)]
    for row in found["differences"]:
        assert row["difference"] == pytest.approx(scores[1][row["key"]] - scores[0][row["key"]], abs=1e-12)
    assert all(row["p_holm"] >= row["p_value"] for row in found["differences"])
    by_key = {row["key"]: row for row in found["differences"]}
    assert {"coco_5k/t2i/recall_at_1", "cxc/t2t/recall_at_5", "eccv_caption/i2t/map_at_r"} <= set(by_key)
    assert by_key["coco_5k/t2i/recall_at_1"]["significant"]
    assert by_key["coco_5k/t2i/recall_at_1"]["low"] > 0
    assert "not compared: cxc/sts/bootstrap_spearman" in " ".join(out.split())


def test_agreement_matches_models_by_folder_across_labels(run, write, tmp_path):
    keys = ["coco_5k/i2t/recall_at_1", "eccv_caption/i2t/map_at_r"]
    new = {"sources": ["coco", "new"], "files": {}}
    reports = []
    for folder, facts in (("old", {}), ("new", {"labels": new})):
        (tmp_path / folder).mkdir()
        reports += [
            write(f"{folder}/{name}", 0.2 + 0.1 * place, keys=keys, **facts) for place, name in enumerate("abc")
        ]
    refusal = run("compare", *reports)[2]
    assert "the set of labels is" in refusal
    assert "--agreement" in refusal
    status, out, err = run("compare", *reports, "--agreement", "--samples", 200, "--output", tmp_path / "out", width=80)
    assert (status, "Traceback" in err) == (0, False)
    for text in ("each task's own labels, and coco + new", "1.00 [1.00, 1.00]", "3 models: a, b, c"):
        assert text in " ".join(out.split())
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == [
        f"compare.{ending}" for ending in ("csv", "html", "json", "md", "tex")
    ]
    written = json.loads((tmp_path / "out" / "compare.json").read_text())["agreement"]
    assert [(row["metric"] == row["other_metric"], row["tau"]) for row in written["rows"]] == [
        (False, 1.0),
        (False, 1.0),
        (True, 1.0),
        (True, 1.0),
    ]


def test_chart_is_written_as_svg(run, write, tmp_path):
    """With published models a scatter chart, and of two models their main metrics."""
    keys = [f"{task}/{direction}/{metric}" for task, metric in CHARTED for direction in ("i2t", "t2i")]
    old = write("old", 0.4, keys=keys)
    new = write("new <b>", 0.6, keys=keys)
    status, out, _ = run("compare", new, "--published", "--name", "new <b>", "--chart", tmp_path / "standing.svg")
    assert status == 0
    assert "wrote" in out
    standing = ElementTree.parse(tmp_path / "standing.svg")
    assert {"new <b>", "BLIP"} <= {text.text for text in standing.iter(f"{SVG}text")}
    run("compare", old, new, "--samples", 300, "--chart", tmp_path / "metrics.svg")
    metrics = ElementTree.parse(tmp_path / "metrics.svg")
    assert "ECCV Caption t2i mAP@R" in {text.text for text in metrics.iter(f"{SVG}text")}


def test_chart_is_refused_before_any_work(run, write, tmp_path):
    models = [write(name, share) for name, share in (("a", 0.2), ("b", 0.3), ("c", 0.4))]
    (tmp_path / "folder.svg").mkdir()
    assert "written as .svg or .png" in run("compare", *models, "--chart", tmp_path / "chart.gif")[2]
    assert "--agreement has no chart" in run("compare", *models, "--agreement", "--chart", tmp_path / "chart.svg")[2]
    assert "is a folder. Name a file." in run("compare", *models, "--chart", tmp_path / "folder.svg")[2]
