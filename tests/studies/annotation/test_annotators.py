"""Owner and annotators: sheets shared out, begun, corrected, held back; what is published; further kinds of pairs."""

import base64
import csv
import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from annotated_projects import knows, noisy_run, page_data, pairs_of, save_runs, write_answers

from cxc_eccv.errors import DataError, InvalidOption, MissingIds
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_labels
from cxc_eccv.studies.annotation.annotation_report import find_rejected_captions
from cxc_eccv.studies.annotation.exporting import Export, export_questions
from cxc_eccv.studies.annotation.label_quality.appraisal import AppraisalRequest, appraise
from cxc_eccv.studies.annotation.merging import merge_labels
from cxc_eccv.studies.annotation.project import Project
from cxc_eccv.studies.annotation.project_files import Terms
from cxc_eccv.studies.annotation.proposing import ProposalOptions
from cxc_eccv.studies.annotation.source_labels import find_rated
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.sheet_quality import list_doubts
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def runs(sample_library):
    return {f"model-{seed}": noisy_run(sample_library, seed) for seed in range(2)}


@pytest.fixture
def project(runs, sample_library, tmp_path):
    """Ten sheets of five candidates."""
    return Project.create(tmp_path / "mine", sample_library, name="mine").propose(
        runs, ProposalOptions(budget=50), size=5
    )


def test_an_owner_with_one_random_annotator_among_three(command, project, sample_library, tmp_path):
    says = knows(project)
    random = np.random.default_rng(1)
    toss = lambda *_: "yes" if random.integers(2) else "no"  # noqa: E731
    people = {"ann": says, "ben": says, "coin": toss}
    files = [write_answers(tmp_path / f"{name}.jsonl", project, name, own) for name, own in people.items()]
    printed = command("import", "mine", *files)
    assert "21 accepted, 9 to be checked by hand" in printed
    assert "A sheet is accepted unless one of its known pairs was answered wrongly." in printed
    assert "of the known pairs correctly, no better than chance" in printed
    printed = command("check", "mine", "--least-accuracy", 0.5)
    assert "20 accepted, 10 to be checked by hand" in printed
    assert "or its person answered no more than 50% of known pairs correctly (95% interval)." in printed
    assert "cxc-eccv annotate check mine --reject coin" in printed
    printed = command("check", "mine")
    assert printed.count("known pairs right are") == printed.count("right are not above 50% (sheets: 10)") == 1
    command("merge", "mine", "--version", "2.0.0", "--license", "cc-by-4.0")
    kept = "version 2.0.0, license cc-by-4.0, rule majority, fewest answers to a pair 1"
    assert kept in command("merge", "mine")
    labels = read_labels(tmp_path / "mine" / "labels.parquet")
    assert labels.facts["people"] == 2
    rows = pq.read_table(labels.path).to_pylist()
    assert {own["person"] for row in rows for own in row["said"]} == {"p1", "p2"}
    assert all(row["positive"] == (sum((row["image_id"], row["caption_id"])) % 3 == 0) for row in rows)
    printed = command("check", "mine", "--reject", "coin")
    assert "sheets of coin: rejected, were to be checked by hand" in printed


def test_a_begun_sheet_and_a_correction_are_told(command, project, tmp_path):
    file = write_answers(tmp_path / "ann.jsonl", project, "Ann", knows(project))
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-3]))
    printed = command("import", "mine", file)
    assert "63 answers are new" in printed
    assert "not imported yet: sheet 9 of ann, 4 of 7 answered" in printed
    assert "open: 9" in printed
    row = json.loads(lines[0])
    other = {"yes": "no", "no": "yes"}[row["answer"]]
    file.write_text(json.dumps(row | {"answer": other, "worker": " ann"}) + "\n")
    assert "let the new one count (--replace)" in command("import", "mine", file, status=2)
    printed = command("import", "mine", file, "--replace")
    assert "0 answers are new, 1 answer changed" in printed
    assert f'sheet 0 of \'ann\', {row["pair_id"]}: "{row["answer"]}" becomes "{other}"' in printed


def test_each_sheet_goes_to_three_people(command, project, sample_library, tmp_path):
    options = ["--images", "images/{file_name}", "--format", "jsonl"]
    names = ["ann", "ben", "cleo d", "dora"]
    printed = command("export", "mine", "--people", ",".join(names), "--output", "out", *options)
    shared = {name: {} for name in names}
    for name in names:
        rows = (tmp_path / "out" / name.replace(" ", "-") / "questions.jsonl").read_text().splitlines()
        for row in map(json.loads, rows):
            assert row["worker"] == name
            shared[name][row["sheet"]] = row
    counts = [sum(sheet in own for own in shared.values()) for sheet in range(10)]
    assert counts == [3] * 10
    assert {len(own) for own in shared.values()} <= {7, 8}
    assert f"ann: {len(shared['ann'])} sheets" in printed
    command("import", "mine", write_answers(tmp_path / "ann.jsonl", project, "ann", knows(project), sheets=[0, 1]))
    command("export", "mine", "--people", "ann,ben", "--each", 1, "--sheets", "open", "--output", "again", *options)
    command("export", "mine", "--people", "ann,ben", "--each", 2, "--sheets", "open", "--output", "both", *options)
    for place, expected in (("again", set()), ("both", set(range(2, 10)))):  # nobody answers a sheet twice
        texts = [(tmp_path / place / name / "questions.jsonl").read_text() for name in ("ann", "ben")]
        ann, ben = ({json.loads(row)["sheet"] for row in text.splitlines()} for text in texts)
        assert ann | ben == set(range(2 if place == "again" else 0, 10))
        assert ann & ben == expected
    outside = ["--people", "..,a/b", "--each", 2, "--output", "safe", "--sheets", "5"]
    command("export", "mine", *outside, *options)
    assert {path.name for path in (tmp_path / "safe").iterdir()} == {"-", "a-b"}
    for people, message in (
        (["a b,a-b,c"], "give the same folder"),
        (["ann,ben", "--each", 5], "give enough different names"),
        (["ann,Ann"], "give enough different names"),
    ):
        assert message in command("export", "mine", "--people", *people, "--output", "no", *options, status=2)


def test_page_has_practice_and_custom_texts(command, project, tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    own = {"language": "de", "question": "Passt es?", "labels": {"yes": "JA"}, "page": {"Begin": "Los"}}
    (texts / "texts.json").write_text(json.dumps(own))
    (texts / "instructions.md").write_text("Schau hin.\n\nDann\nlies.\n")
    (texts / "consent.md").write_text("Ich bin dabei.")
    (texts / "examples.md").write_text("Ein Hund rennt: <b>ja</b>.")
    command("export", "mine", "--images", "sample", "--practice", 3, "--texts", texts, "--output", "out")
    data = page_data(tmp_path / "out" / "questionnaire.html")
    assert [own["expected"] for own in data["practice"]] == [True, False, True]
    asked = {own["pair_id"] for own in data["asked"]}
    assert not {own["pair_id"] for own in data["practice"]} & asked
    assert all(own["file_name"] in data["images"] for own in data["practice"])
    assert data["sheets"] == [{"number": number, "size": 7} for number in range(10)]
    examples = {"consent": ["Ich bin dabei."], "examples": ["Ein Hund rennt: <b>ja</b>."]}
    assert data["texts"] == {"language": "de", "page": {"Begin": "Los"}, **examples}
    assert data["scheme"]["instructions"] == ["Schau hin.", "Dann lies."]
    assert (data["widgets"][0]["label"], data["widgets"][0]["choices"]["yes"]) == ("Passt es?", "JA")
    for content, message in (
        ({"labels": {"ja": "JA"}}, "labels: found 'ja'"),
        ({"page": {"begin": "Los"}}, "page: found 'begin'"),
        ({"titel": "x"}, "an object with some"),
    ):
        (texts / "texts.json").write_text(json.dumps(content))
        assert message in command("export", "mine", "--texts", texts, "--output", "no", status=2)
    (tmp_path / "none").mkdir()
    assert "has no texts" in command("export", "mine", "--texts", "none", "--output", "no", status=2)


def test_mturk_hit_counts_as_a_sheet(command, project, tmp_path):
    images = ["--images", "https://example.org/{file_name}"]
    printed = command("export", "mine", "--format", "mturk", *images, "--output", "hits")
    assert "next: cxc-eccv annotate import mine ANSWERS --format mturk" in printed
    says = knows(project)
    results = [["WorkerId", "AssignmentStatus", "Answer.answers"]]
    for number, hit in enumerate(csv.DictReader((tmp_path / "hits" / "hits.csv").read_text().splitlines())):
        asked = json.loads(base64.b64decode(hit["questions"]))["asked"]
        assert {question["sheet"] for question in asked} == {number}
        answers = [
            {key: value for key, value in question.items() if key != "file_name"}
            | {"answer": says(question["image_id"], question["caption_id"]), "seconds": 2.5}
            for question in asked
        ]
        results += [["W1", "Approved", json.dumps(answers)], ["W2", "Rejected", json.dumps(answers)]]
    with (tmp_path / "batch.csv").open("w", newline="") as file:
        csv.writer(file).writerows(results)
    printed = command("import", "mine", "batch.csv", "--format", "mturk")
    assert "70 answers are new" in printed
    assert "10 of 10 sheets answered, by 1 worker" in printed


def export_from_label_studio(path, tasks, says, people):
    """A project as Label Studio exports it: its tasks were handed out to people in turn."""
    exported = []
    for number, task in enumerate(tasks):
        answer = {"choices": [says(task["data"]["image_id"], task["data"]["caption_id"])]}
        result = {"id": "r", "type": "choices", "value": answer, "from_name": "answer", "to_name": "image"}
        annotation = {"id": 70 + number, "completed_by": people[number % len(people)], "result": [result]}
        annotation |= {"was_cancelled": False, "ground_truth": False, "lead_time": 4.25}
        exported.append({"id": 40 + number, "annotations": [annotation], "predictions": [], **task})
    path.write_text(json.dumps(exported))
    return path


def test_answers_spread_by_label_studio_all_count(command, runs, sample_library, tmp_path):
    project = Project.create(tmp_path / "mine", sample_library, name="mine").propose(
        runs, ProposalOptions(budget=40), size=20
    )
    options = ["--format", "label_studio", "--images", "https://example.org/{file_name}", "--output", "studio"]
    assert "needs --people, because each person gets a project" in command("export", "mine", *options, status=2)
    printed = command("export", "mine", *options, "--people", "ann")
    assert "one project per person" in printed
    assert "need a Local Storage in each project" in printed
    tasks = json.loads((tmp_path / "studio" / "ann" / "tasks.json").read_text())
    path = export_from_label_studio(tmp_path / "half.json", tasks[:30], knows(project), [1, 2])
    assert "accounts 1 and 2 as those of 'ann'" in command("import", "mine", path, status=2)
    for task in tasks:
        del task["data"]["worker"]
    path = export_from_label_studio(tmp_path / "half.json", tasks[:30], knows(project), [1, 2])
    printed = command("import", "mine", path)
    assert "30 answers are new" in printed
    assert "1 of 2 sheets answered, by 2 workers; open: 1" in printed
    path = export_from_label_studio(tmp_path / "all.json", tasks, knows(project), [1, 2])
    assert "the name of the earlier file" in command("import", "mine", path, status=2)
    printed = command("import", "mine", path.rename(tmp_path / "half.json"))
    assert "14 answers are new" in printed
    assert "2 of 2 sheets answered, by 2 workers" in printed
    assert "answered sheets: 4 accepted" in printed
    assert "40 pairs have a label" in command("merge", "mine")
    printed = command("export", "mine", *options, "--people", "1,2", "--sheets", "open")
    assert all(f"{person}: 2 sheets" in printed for person in (1, 2))  # who has a part of a sheet may get the rest


def test_tasks_of_label_studio_bring_their_person(command, project, tmp_path):
    """From two installations that both number their user 1."""
    options = ["--format", "label_studio", "--images", "x/{file_name}", "--people", "Ann,ben", "--each", 2]
    command("export", "mine", *options, "--output", "studio")
    files = []
    for name in ("ann", "ben"):
        tasks = json.loads((tmp_path / "studio" / name / "tasks.json").read_text())
        files.append(export_from_label_studio(tmp_path / f"{name}.json", tasks, knows(project), [1]))
    assert "10 of 10 sheets answered, by 2 workers" in command("import", "mine", *files)
    assert {response.worker for response in Project.open(project.folder, project.library).responses} == {"ann", "ben"}
    assert "found 'ann', expected answers of 'zoe' alone" in command(
        "import", "mine", files[0], "--worker", "zoe", status=2
    )


def test_part_without_known_pairs_is_judged_by_others(project, sample_library, tmp_path):
    """The known pairs among the person's other answers decide."""
    tasks = [{"data": row} for row in map(json.loads, write_answers(
        tmp_path / "a.jsonl", project, "ann", knows(project)).read_text().splitlines()
    )]  # fmt: skip
    roles = {question.pair_id: question.role for sheet in project.questions for question in sheet}
    for task in tasks:
        del task["data"]["worker"]
    first = [task for task in tasks if task["data"]["sheet"] == 0 and roles[task["data"]["pair_id"]] == "candidate"]
    other = [task for task in tasks if task["data"]["sheet"] == 1]
    says = {"ann": knows(project), "ben": lambda *_: "yes"}
    files = [
        export_from_label_studio(tmp_path / f"{name}.json", first + other, own, [name]) for name, own in says.items()
    ]
    verdicts = project.add_answers(files).project.verdicts
    judged = {(sheet.sheet, sheet.worker): sheet for sheet in verdicts.itertuples()}
    assert {key: sheet.verdict for key, sheet in judged.items() if key[1] == "ann"} == dict.fromkeys(
        [(0, "ann"), (1, "ann")], "accepted"
    )
    assert judged[0, "ben"].verdict == "to be checked by hand"
    assert "1 of 2 [9%, 91%] known pairs right, none of them among these answers" in list_doubts(judged[0, "ben"])


@pytest.mark.parametrize("scheme", [each.name for each in schemes().values() if each.in_projects])
def test_practice_shows_all_parts_of_a_known_pair(scheme, runs, sample_library, tmp_path):
    project = Project.create(tmp_path / "mine", sample_library, name="mine", scheme=scheme)
    project = project.propose({"one": runs["model-0"]}, ProposalOptions(budget=10), size=5)
    data = page_data(export_questions(project, tmp_path / "out", Export(images="sample", practice=3))[0])
    # All matching pairs of two images in the sample are on the sheets.
    expected = [False] * 3 if scheme == "cxc_images" else [True, False, True]
    assert [question["expected"] for question in data["practice"]] == expected
    for question in data["practice"]:
        assert all(question[part["name"]] for part in data["shows"])
        assert all(question[part["name"]] in data["images"] for part in data["shows"] if part["kind"] == "image")
    rated = find_rated(sample_library.split("test"), project.scheme, (np.empty(0, int), np.empty(0, int)))
    if rated[0][0].size:
        pairs = [(question["image_id"], question["caption_id"]) for question in data["practice"]]
        known = [set(zip(*(ids.tolist() for ids in side), strict=True)) for side in rated]
        assert all(pair in known[not match] for pair, match in zip(pairs, expected, strict=True))
    with pytest.raises(DataError, match=r"known pairs are left to practise on, not 50,000: ask for fewer"):
        export_questions(project, tmp_path / "out", Export(images="sample", practice=50_000))


def test_published_labels_name_models_and_nobody_else(project, runs, tmp_path):
    says = knows(project)
    files = [write_answers(tmp_path / f"{name}.jsonl", project, name, says) for name in ("zoe", "ann")]
    merge_labels(project.add_answers(files).project)
    card = (project.folder / "README.md").read_text()
    rows = pq.read_table(project.folder / "labels.parquet").to_pylist()
    assert {own["model"] for row in rows for own in row["proposals"]} == {"model-0", "model-1"}
    assert all(len(row["said"]) == row["answers"] == 2 and row["proposals"] for row in rows)
    assert {said["person"] for row in rows for said in row["said"]} == {"p1", "p2"}
    assert "zoe" not in card + str(rows)
    assert "ann" not in str(rows)


def test_precision_of_coco_is_reported_for_asked_pairs(runs, sample_library, tmp_path):
    """And captions that people turned down are listed, with CxC's ratings: appendix C.1."""
    project = Project.create(tmp_path / "mine", sample_library, name="mine")
    project = project.propose(runs, ProposalOptions(budget=60, ask_known=True), size=10)
    content = sample_library.split("test")
    own = set(zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True))
    asked = pairs_of(project.candidates) & own
    wrong = sorted(asked)[0]
    yes = asked | pairs_of(one for sheet in project.questions for one in sheet if one.role == "known positive")
    says = lambda *pair: "yes" if pair in yes - {wrong} else "no"  # noqa: E731
    after = project.add_answers([write_answers(tmp_path / "a.jsonl", project, "ann", says)]).project
    merge_labels(after)
    found = appraise(Library("sample", labels=[after.folder]), AppraisalRequest(project=after, sets=[["coco"]]))
    precision = {row.direction: row.precision.value for row in found.worth if row.labels == "coco"}
    images = {image for image, _ in asked}
    expected = np.mean([np.mean([pair != wrong for pair in asked if pair[0] == image]) for image in images])
    assert precision["i2t"] == pytest.approx(expected)
    first, *rest = find_rejected_captions(after.answers, sample_library.split("test"))
    assert (first.image_id, first.caption_id, first.turned_down, first.answers) == (*wrong, 1, 1)
    assert all(row.turned_down == 0 and row.rating < 3 for row in rest)


def test_known_entailment_pairs_are_rated_5_and_0(runs, sample_library, tmp_path):
    project = Project.create(tmp_path / "mine", sample_library, name="mine", scheme="entailment")
    project = project.propose({"one": runs["model-0"]}, ProposalOptions(budget=10), size=5)
    rated = sample_library.split("test").ratings("sits").to_pylist()
    ratings = {(row["right_id"], row["left_id"]): row["rating"] for row in rated}
    for own in (own for sheet in project.questions for own in sheet if own.role != "candidate"):
        assert ratings[own.image_id, own.caption_id] == (5.0 if own.role == "known positive" else 0.0)


@pytest.mark.parametrize(("side", "prefix"), [("image", "COCO_val2014_"), ("caption", "COCO_val2014:sentid:")])
def test_same_modality_answers_become_cxc_ratings(side, prefix, command, sample_library, tmp_path):
    models = save_runs(tmp_path, sample_library, seeds=(0,))
    scheme = f"cxc_{side}s"
    command("propose", "mine", models[0], "--scheme", scheme, "--budget", 10, "--size", 5)
    project = Project.open(tmp_path / "mine", sample_library)
    says = {"ann": lambda *_: 4.0, "ben": lambda *_: 2.5}
    files = [write_answers(tmp_path / f"{name}.jsonl", project, name, own) for name, own in says.items()]
    command("import", "mine", *files)
    command("check", "mine", "--accept", "ann", "--accept", "ben")
    assert "wrote mine/ratings.csv" in command("merge", "mine")
    header, *rows = (tmp_path / "mine" / "ratings.csv").read_text().splitlines()
    assert header == f"{side}1,{side}2,agg_score,sampling_method"
    assert len(rows) == 10
    assert all(row.startswith(prefix) and row.split(",")[2] == "3.25" for row in rows)
    with pytest.raises(InvalidOption, match="makes ratings, not labels"):
        merge_labels(project)


def test_label_file_that_changed_between_rounds_is_noticed(command, project, sample_library, tmp_path):
    """Its positives are not asked about, so the rounds would ask about pairs of two kinds unnoticed."""
    done = project.add_answers([write_answers(tmp_path / "ann.jsonl", project, "ann", knows(project))]).project
    merge_labels(done)
    models = save_runs(tmp_path, sample_library, seeds=(0, 1))
    options = ["--labels", "mine", "--size", 5]
    first = command("propose", "other", *models, "--budget", 10, *options)
    same = command("propose", "other", *models, "--budget", 10, *options, "--leave-open")
    merge_labels(done, Terms(version="1.0.1"))
    changed = command("propose", "other", *models, "--budget", 10, *options, "--leave-open")
    left_out = command("propose", "other", *models, "--budget", 10, "--leave-open")
    assert "changed" not in first + same
    assert "the labels mine changed or were left out since round 2" in changed
    assert "the labels mine changed or were left out since round 3" in left_out


@pytest.mark.parametrize("scheme", ["eccv", "entailment", "cxc", "cxc_images", "cxc_captions"])
def test_pilot_asks_about_a_part_of_the_split(scheme, sample_library, tmp_path):
    """Models hold only that part; sheets have known pairs of it alone, and the whole split can follow."""
    content = sample_library.split("test")
    images = set(np.sort(content.image_ids)[:30].tolist())
    owners = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    whole = noisy_run(sample_library, 0)
    rows = np.isin(content.image_ids, list(images)), np.isin(content.caption_image_ids, list(images))
    shown, said = (
        Embeddings(side.ids[kept], side.vectors[kept])
        for side, kept in zip((whole.images, whole.captions), rows, strict=True)
    )
    part = replace(whole, images=shown, captions=said)
    project = Project.create(tmp_path / "mine", sample_library, name="mine", scheme=scheme)
    with pytest.raises(MissingIds, match="lacks"):
        project.propose({"one": part}, ProposalOptions(budget=10), size=5)
    project = project.propose({"one": part}, ProposalOptions(budget=10, limit=30), size=5)
    asked = [own for sheet in project.questions for own in sheet]
    assert sum(own.role == "candidate" for own in asked) == 10
    for own in asked:
        pair = zip(project.scheme.sides, (own.image_id, own.caption_id), strict=True)
        assert {number if side == "image" else owners[number] for side, number in pair} <= images
    again = project.propose({"one": whole}, ProposalOptions(budget=400), size=20, leave_open=True)
    assert not pairs_of(again.rounds[0].candidates) & pairs_of(again.rounds[1].candidates)
    smaller = again.propose({"one": whole}, ProposalOptions(budget=5, limit=45), size=5, leave_open=True)
    assert smaller.rounds[2].candidates.num_rows == 5


def test_a_round_without_reasons_asks_for_none(command, project, sample_library, runs, tmp_path):
    again = project.propose(runs, ProposalOptions(budget=10), size=5, leave_open=True, without_reasons=True)
    assert [len(own.questionnaire.scheme.details) for own in again.rounds] == [2, 0]
    data = export_questions(again, tmp_path / "out", Export(images="images/{file_name}"))[0]
    assert [own["name"] for own in page_data(data)["widgets"]] == ["answer"]
    with pytest.raises(InvalidOption, match="export each kind separately"):
        export_questions(again, tmp_path / "out", Export(images="images/{file_name}", sheets=[0, 10]))
