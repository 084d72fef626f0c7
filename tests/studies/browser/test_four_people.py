"""The four people of the tutorial: who asks, who answers in a browser, who tosses a coin, and who has Label Studio."""

import json
import random

import pyarrow.parquet as pq
import pytest
from annotated_projects import command, knows, noisy_run

from cxc_eccv.studies.annotation.project import Project

__all__ = ["command"]

pytestmark = pytest.mark.slow

KEYS = {"yes": "1", "no": "4"}
IS_READY = "!document.getElementById('form').inert"


def answer_page(page, name, says, *, touch):
    """All questions of a page, those for practice first, and the file of the answers."""
    data = json.loads(page.run("document.getElementById('data').textContent"))
    if touch:
        page.tap("#worker")
        page.press(name)
        page.tap("#begin", scroll=True)
    else:
        page.press(name, "Enter")
    expected = [("yes" if own["expected"] else "no") for own in data["practice"]]
    for answer in [*expected, *(says(own["image_id"], own["caption_id"]) for own in data["asked"])]:
        page.wait(IS_READY)
        if touch:
            page.tap(f"#form label:nth-of-type({KEYS[answer]})", scroll=True)
            page.tap("#next")
        else:
            page.press(KEYS[answer], "Enter")
    if touch:
        page.tap("#save")
    else:
        page.press("s")
    assert page.complaints == []
    return page.visitor.take_saved()


def export_of_label_studio(tasks, says):
    """The project's export after one person has answered all tasks."""
    answered = []
    for number, task in enumerate(json.loads(tasks.read_text(encoding="utf-8"))):
        chosen = says(task["data"]["image_id"], task["data"]["caption_id"])
        choice = {"from_name": "answer", "to_name": "image", "type": "choices", "value": {"choices": [chosen]}}
        annotation = {"id": number, "completed_by": 7, "result": [choice], "lead_time": 4.0, "was_cancelled": False}
        answered.append({"id": number, "data": task["data"], "annotations": [annotation]})
    return answered


def test_four_people_get_through_without_a_stumble(command, visitor, sample_library, tmp_path):
    runs = {f"model-{seed}": noisy_run(sample_library, seed) for seed in range(2)}
    project = Project.create(tmp_path / "mine", sample_library, name="mine").propose(runs, budget=15, size=5)
    says, coin = knows(project), random.Random(2)
    people = {"ann": says, "ben": says, "coin": lambda *_: coin.choice(["yes", "no"])}
    options = ("--images", "sample", "--people", ",".join(people), "--practice", 3, "--output", "asked")
    assert "asked/ann/questionnaire.html" in command("export", "mine", *options)
    files = []
    for name, own in people.items():
        touch = name == "ben"
        html = (tmp_path / "asked" / name / "questionnaire.html").read_text(encoding="utf-8")
        page = visitor.open(html, **({"width": 390, "height": 844, "touch": True} if touch else {}))
        files.append(answer_page(page, name, own, touch=touch))

    printed = command("import", "mine", *files)
    assert "cxc-eccv annotate check mine --reject coin" in printed
    command("merge", "mine")
    path = tmp_path / "mine" / "labels.parquet"
    rows = pq.read_table(path).to_pylist()
    assert len(rows) == 15
    assert {own["person"] for row in rows for own in row["said"]} == {"p1", "p2"}
    assert all(row["positive"] == ((row["image_id"] + row["caption_id"]) % 3 == 0) for row in rows)
    assert "rejected" in command("check", "mine", "--reject", "coin")

    command("export", "mine", "--format", "label_studio", "--images", "coco/{file_name}", "--output", "studio")
    answered = export_of_label_studio(tmp_path / "studio" / "tasks.json", says)
    (tmp_path / "export.json").write_text(json.dumps(answered), encoding="utf-8")
    assert "21 answers are new" in command("import", "mine", "export.json")
    command("merge", "mine")
    assert {own["person"] for row in pq.read_table(path).to_pylist() for own in row["said"]} == {
        "p1",
        "p2",
        "p4",
    }  # p3 tossed a coin
