"""``cxc-eccv tables`` and ``compare``: tables for a paper: LaTeX, Markdown, CSV."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from cxc_eccv.comparison.paper_tables import PaperTables
from cxc_eccv.comparison.published import eccv_caption_table
from cxc_eccv.report import Report
from cxc_eccv.report.loading import read_report
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance

pytestmark = pytest.mark.thorough

DATA = {"edition": "official", "version": "1", "fingerprint": "f", "files": {}}
FACTS = {"split": "test", "data": DATA, "confidence": 0.95, "intervals": "bootstrap"}
RECALLS = ("recall_at_1", "recall_at_5", "recall_at_10")
CROSS = [f"{task}/{direction}" for task in ("coco_1k", "coco_5k", "cxc") for direction in ("i2t", "t2i")]


@pytest.fixture
def write(tmp_path):
    """Write a report of these scores, and give its folder."""

    def written(folder, scores, **facts):
        rows = []
        for key, value in scores.items():
            task, *direction, metric = key.split("/")
            bounds = {} if metric.endswith("_std") else {"low": value - 0.0123, "high": value + 0.0123}
            rows.append(Result(task, "".join(direction), metric, value, 5000, **bounds))
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "report.json").write_text(
            Report(tuple(rows), {}, from_json(Provenance, FACTS | facts)).to_json()
        )
        return tmp_path / folder

    return written


def full(value):
    """Scores under every metric of the tables."""
    keys = [f"{part}/{metric}" for part in CROSS for metric in RECALLS]
    for direction in ("i2t", "t2i"):
        keys += [f"eccv_caption/{direction}/{metric}" for metric in ("map_at_r", "r_precision", *RECALLS)]
        keys += [f"plausible_match/{direction}/pmrp", f"cxc_rated/{direction}/recall_at_1"]
    scores = {key: value + place / 1000 for place, key in enumerate(keys)}
    spearman = {"cxc/sts/bootstrap_spearman": 0.7349 + value, "cxc/sts/bootstrap_spearman_std": 0.0041}
    return scores | {"coco_1k/rsum": 100 * value, "coco_5k/rsum": 90 * value} | spearman


def cells(line):
    """The cells of a line of Markdown."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_columns_stand_in_the_order_of_the_field(run, write):
    _, out, _ = run("tables", write("one", full(0.1)), "--format", "markdown")
    headings = [cells(line)[1:] for line in out.splitlines() if line.startswith("|  |")]
    recalls = ["R@1", "R@5", "R@10"]

    def under(task, metrics):
        return [f"{task} {direction} {metric}" for direction in ("i2t", "t2i") for metric in metrics]

    assert headings == [
        [*under("COCO 1K", recalls), "COCO 1K RSUM", *under("COCO 5K", recalls), "COCO 5K RSUM"],
        [*under("CxC", recalls), *under("ECCV Caption", ["mAP@R", "R-P", "R@1"]), *under("Plausible match", ["PMRP"])],
        ["CxC sts Spearman"],
    ]
    assert "| one | 0.835 ± 0.004 |" in out
    assert "**" not in out  # one model is not the best


def test_best_value_is_bold_and_missing_a_dash(run, write):
    """Bold goes by what is shown: two values that look alike are as good as each other."""
    scores = {"coco_5k/i2t/recall_at_1": 0.4174, "coco_5k/i2t/recall_at_5": 0.7, "coco_5k/i2t/median_rank": 2.0}
    old = write("old", scores, model="a_b & c")
    new = write("new", scores | {"coco_5k/i2t/recall_at_1": 0.4172, "coco_5k/i2t/median_rank": 1.5}, model="[v2]")
    bare = write("bare", {"coco_5k/i2t/recall_at_1": 0.3, "coco_5k/t2i/recall_at_1": 0.2}, model="bare")
    _, out, _ = run("tables", old, new, bare, "--format", "markdown")
    rows = {line.split(" | ")[0]: cells(line)[1:] for line in out.splitlines() if line.startswith("| ")}
    assert rows["| a\\_b &amp; c"] == ["**41.7**", "**70.0**", "—"]
    assert rows["| \\[v2\\]"] == ["**41.7**", "**70.0**", "—"]
    assert rows["| bare"] == ["30.0", "—", "20.0"]
    _, out, _ = run("tables", old, new, bare, "--format", "latex")
    assert r"a\_b \& c & \textbf{41.7} & \textbf{70.0} & \textemdash{} \\" in out
    assert r"{[}v2] & \textbf{41.7}" in out
    assert r"\multicolumn{2}{c}{i2t} & t2i \\" in out


def test_doubt_of_a_model_is_one_comment(run, write):
    facts = {"coco_5k/i2t/recall_at_1": 0.4, "cxc/i2t/recall_at_1": 0.4, "cxc/t2t/recall_at_1": 0.4}
    folder = write("mine", facts)
    path = folder / "report.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"doubts": {"random": "Positives rank at random."}}))
    _, out, _ = run("tables", folder, "--format", "latex")
    assert out.count("Positives rank at random.") == 1
    assert "% Check mine first: Positives rank at random.\n" in out
    assert out.count("Check mine first (see the comment above the table).}") == 3
    assert re.findall(r"label{(.*)}", out) == ["tab:links", "tab:further-labels", "tab:one-modality"]


def test_intervals_come_on_request(run, write):
    folder = write("one", {"coco_5k/i2t/recall_at_1": 0.4174, "cxc/sts/bootstrap_spearman": 0.7349})
    assert "[" not in run("tables", folder, "--format", "markdown")[1]
    _, out, _ = run("tables", folder, "--format", "markdown", "--intervals")
    assert "41.7 [40.5, 43.0]" in out
    assert "0.735 [0.723, 0.747]" in out
    assert "with 95% intervals" in out
    _, out, _ = run("tables", folder, "--format", "latex", "--intervals")
    assert r"\shortstack[r]{41.7\\ {\tiny {[}40.5, 43.0]}}" in out
    other = write("other", {"coco_5k/i2t/recall_at_1": 0.4}, confidence=0.9)
    status, _, err = run("tables", folder, other, "--format", "latex", "--intervals")
    assert (status, "different intervals" in err) == (2, True)
    assert run("tables", folder, other, "--format", "latex")[0] == 0


def test_csv_has_full_values_under_report_keys(run, write):
    one = write("one", full(0.1))
    other = write("other", {"coco_5k/i2t/recall_at_1": 1 / 3})
    _, out, _ = run("tables", one, other, "--format", "csv", "--intervals", "--name", "a", "--name", "b")
    first, second = csv.DictReader(io.StringIO(out))
    scores = read_report(one / "report.json").scores
    assert first.pop("data") == second["data"] == "test split of COCO (official data)"
    beside = ("/low", "/high", "/interval_method", "model")
    values = {key: value for key, value in first.items() if not key.endswith(beside)}
    assert {key: float(value) for key, value in values.items()} == {key: scores[key] for key in values}
    assert len(values) == 18 + 2 + 6 + 2 + 2
    assert (first["model"], second["model"]) == ("a", "b")
    assert float(second["coco_5k/i2t/recall_at_1"]) == 1 / 3
    assert float(second["coco_5k/i2t/recall_at_1/low"]) == 1 / 3 - 0.0123
    assert second["coco_1k/rsum"] == second["cxc/sts/bootstrap_spearman_std"] == ""


def test_tables_have_the_tasks_that_are_named(run, write):
    """Results outside the tables of the papers are shown too."""
    folder = write("one", full(0.1))
    _, out, _ = run("tables", folder, "--format", "markdown", "--tasks", "ECCV Caption,cxc_rated")
    headings = [cells(line)[1:] for line in out.splitlines() if line.startswith("|  |")]
    assert [len(one) for one in headings] == [6, 2]
    assert headings[1] == ["CxC rated i2t R@1", "CxC rated t2i R@1"]
    status, out, err = run("tables", folder, "--format", "latex", "--tasks", "eccv_captions")
    assert (status, out) == (2, "")
    assert "did you mean 'eccv_caption'" in err
    other = write("other", {"cxc/t2t/median_rank": 4.0})
    assert "CxC t2t median rank" in run("tables", other, "--format", "markdown")[1]


def test_tables_are_written_to_a_file(run, write, tmp_path):
    folder = write("one", full(0.1))
    _, printed, _ = run("tables", folder, "--format", "latex")
    status, out, _ = run("tables", folder, "--format", "latex", "--output", tmp_path / "scores.tex")
    assert (status, out) == (0, f"wrote {tmp_path / 'scores.tex'}\n")
    assert (tmp_path / "scores.tex").read_text() == printed


REFUSED = {
    "other-split": ("one other --format latex", "the split is 'test' for one and 'validation' for other"),
    "other-edition": ("one edition --format csv", "the data's edition is 'official' for one and 'sample' for edition"),
    "unknown-format": ("one --format latx", "unknown format 'latx'; did you mean 'latex'?"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_does_not_belong_together_is_refused(run, write, tmp_path, monkeypatch, fault):
    monkeypatch.chdir(tmp_path)
    scores = {"coco_5k/i2t/recall_at_1": 0.4}
    write("one", scores)
    write("other", scores, split="validation")
    write("edition", scores, data=DATA | {"edition": "sample"})
    words, message = REFUSED[fault]
    status, out, err = run("tables", *words.split())
    assert (status, out) == (2, "")
    assert message in err


def test_modified_data_is_said(run, write):
    modified = {"karpathy": {"expected": "a", "found": "b"}}
    _, out, _ = run(
        "tables",
        write("one", {"coco_5k/i2t/recall_at_1": 0.4}, data=DATA | {"modified": modified}),
        "--format",
        "latex",
    )
    assert "modified data of one: karpathy." in out


def test_names_do_not_act_on_a_terminal(run, write):
    folder = write("one", {"coco_5k/i2t/recall_at_1": 0.4}, model="x\x1b[31m\ny")
    for form in ("latex", "markdown", "csv"):
        out = run("tables", folder, "--format", form)[1]
        assert "\x1b" not in out
        assert "x1b" in out


def test_comparison_files_hold_what_the_console_shows(run, evaluated, tmp_path):
    _, out, _ = run("compare", evaluated("old", 2.0), evaluated("new", 0.5), "--output", tmp_path / "out")
    names = ["compare.csv", "compare.html", "compare.json", "compare.md", "compare.tex"]
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == names
    written = ["compare.html", "compare.json", "compare.md", "compare.tex", "compare.csv"]
    assert " ".join(out.partition("/out/:")[2].split()) == ", ".join(written)
    found = json.loads((tmp_path / "out" / "compare.json").read_text())["differences"]
    markdown = (tmp_path / "out" / "compare.md").read_text()
    latex = (tmp_path / "out" / "compare.tex").read_text()
    shown = [line.split() for line in out.splitlines() if line.startswith(("    i2t", "    t2i", "    t2t", "    i2i"))]
    assert len(shown) == len(found) > 10
    for row, words in zip(found, shown, strict=True):
        difference = f"{100 * row['difference']:+.1f}"
        assert difference in words
        bold = f"**{difference}**" if row["significant"] else difference
        assert any(bold in cells(line) for line in markdown.splitlines() if line.startswith("|"))
    assert any(row["significant"] for row in found)
    assert ["won:lost" in text for text in (markdown, latex, out)] == [True, False, False]
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 1
    rows = list(csv.DictReader((tmp_path / "out" / "compare.csv").read_text().splitlines()))
    for row, wanted in zip(rows, found, strict=True):
        assert float(row["p_holm"]) == wanted["p_holm"]
        assert row["significant"] == str(wanted["significant"])


def test_own_model_is_ranked_among_published_ones(run, write, tmp_path):
    table = eccv_caption_table()
    scores = {one.key: one.value for one in table.scores if one.model == "SGR" and one.key.count("/") == 2}
    status, out, _ = run("compare", write("mine", scores), "--published", "--output", tmp_path / "out")
    assert status == 0
    assert "Published models of ECCV Caption" in out
    papers, _, _ = out.partition("Published models of Crisscrossed")
    rows = [line.split("  ")[1] for line in papers.splitlines() if re.match(r"  \S.*\d\d\.\d\d", line)]
    values = table.scores_of("eccv_caption/map_at_r")
    ordered = sorted(values, key=values.get, reverse=True)
    place = ordered.index("SGR")
    assert rows == [*ordered[:3], *ordered[place - 1 : place + 1], "mine", *ordered[place + 1 : place + 3]]
    markdown = (tmp_path / "out" / "compare.md").read_text().splitlines()
    named = [cells(line)[0] for line in markdown if line.startswith("|")]
    assert named[named.index("SGR") + 1] == "**mine**"
    assert r"\textbf{mine} & 15 & " in (tmp_path / "out" / "compare.tex").read_text()
    text = (tmp_path / "out" / "published.csv").read_text()
    rows = [row for row in csv.DictReader(text.splitlines()) if row["table"] == "eccv_caption"]
    models = [(row["model"], row["published"]) for row in rows]
    assert models[models.index(("SGR", "True")) + 1] == ("mine", "False")
    assert len(models) == 26


def test_files_of_an_earlier_comparison_go(run, evaluated, write, tmp_path):
    """Other files stay, and one of its names that it did not write is not replaced."""
    out = tmp_path / "out"
    run("compare", evaluated("old", 2.0), evaluated("new", 0.5), "--output", out)
    (out / "mine.txt").write_text("kept")
    mine = write("mine", full(0.1))
    run("compare", mine, "--published", "--output", out)
    names = sorted(path.name for path in out.glob("[!.]*"))
    assert names == ["compare.html", "compare.json", "compare.md", "compare.tex", "mine.txt", "published.csv"]
    (out / "compare.md").write_text("my notes")
    assert "has files that no command wrote: compare.md" in run("compare", mine, "--published", "--output", out)[2]
    assert (out / "compare.md").read_text() == "my notes"


def test_captions_warn_that_judge_intervals_cover_images_only():
    row = Result("entailment", "i2t", "entail_at_1", 0.9, 60, coverage=0.2, parameters={"unjudged": "classifier"})
    for policy, told in (("classifier", True), ("leave_out", False)):
        report = Report((replace(row, parameters={"unjudged": policy}),), {}, from_json(Provenance, FACTS))
        (table,) = PaperTables({"CLIP": report}, ["entailment"]).tables()
        assert any("interval over images only" in caution for caution in table.cautions) is told
