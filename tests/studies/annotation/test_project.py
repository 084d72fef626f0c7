"""The state of a project: what each step writes, what it refuses, and what a killed one leaves."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import oracles
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from annotated_projects import content_of, knows, noisy_run, pairs_of, save_runs, write_answers

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing, UnknownName, WriteFailed
from cxc_eccv.judgments.qrels import merged_qrels
from cxc_eccv.parquet import read_parquet, write_parquet
from cxc_eccv.runs import load_run
from cxc_eccv.sources.download import sha256_of
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_labels
from cxc_eccv.studies.annotation import project as module
from cxc_eccv.studies.annotation.known import compare_labels, find_rated
from cxc_eccv.studies.annotation.project import Project
from cxc_eccv.studies.annotation.rounds import STORED_ANSWERS, seal
from cxc_eccv.studies.annotation.rounds import _checksum as checksum
from cxc_eccv.studies.asking.quality import Checks, read_checks
from cxc_eccv.studies.asking.questions import sheets_to_table
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.writing import locked, write_json

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def runs(sample_library):
    return {f"model-{seed}": noisy_run(sample_library, seed) for seed in range(3)}


@pytest.fixture(scope="module")
def proposed(sample_library, runs, tmp_path_factory):
    """A project with a round of two sheets of five candidates, which nobody has answered."""
    folder = tmp_path_factory.mktemp("proposed") / "project"
    Project.create(folder, sample_library, name="ours").propose(runs, budget=10, size=5)
    return folder


@pytest.fixture(scope="module")
def answered(proposed, sample_library, tmp_path_factory):
    """The same with the answers of two people, and a second round without any."""
    folder = tmp_path_factory.mktemp("answered") / "project"
    shutil.copytree(proposed, folder)
    project = Project.open(folder, sample_library)
    files = [write_answers(folder.parent / f"{name}.jsonl", project, name, knows(project)) for name in ("ann", "ben")]
    project.add_answers(files).project.propose({"other": noisy_run(sample_library, 7)}, budget=7, size=5)
    return folder


@pytest.fixture
def copy(tmp_path, proposed, answered):
    """A project to spoil."""

    def make(which="proposed"):
        return Path(shutil.copytree({"proposed": proposed, "answered": answered}[which], tmp_path / which))

    return make


def test_a_project_is_read_as_it_was_made(answered, sample_library):
    project = Project.open(answered, sample_library)
    assert (project.name, project.scheme.name, project.split, project.seed) == ("ours", "eccv", "test", 0)
    assert [len(own.sheets) for own in project.rounds] == [2, 2]
    assert [own.candidates.num_rows for own in project.rounds] == [10, 7]
    assert project.rounds[0].facts["proposal"]["counts"]["candidates"] == 10
    assert sorted(project.rounds[0].facts["proposal"]["models"]) == ["model-0", "model-1", "model-2"]
    assert project.candidates().num_rows == 17
    assert len(project.questions()) == 4
    assert project.open_sheets() == [2, 3]
    assert project.open_sheets(2) == [2, 3]
    assert project.open_sheets(3) == [0, 1, 2, 3]
    assert [own.numbers for own in project.rounds] == [range(2), range(2, 4)]
    with pytest.raises(InvalidOption, match=r"has no round 3; choose one from 1 to 2"):
        project.round(3)


def test_no_known_pair_is_one_that_describes_nothing(sample_library, runs, tmp_path, monkeypatch):
    content = sample_library.karpathy("test")
    half = {"image": content.image_ids[::2], "caption": content.caption_ids[::2]}
    monkeypatch.setattr(Library, "invalid_ids", lambda _, kind: half[kind])
    project = Project.create(tmp_path / "mine", sample_library, name="ours").propose(runs, budget=20, size=5)
    known = [own for sheet in project.rounds[0].sheets for own in sheet if own.role != "candidate"]
    assert len(known) == 8
    assert not {own.image_id for own in known} & set(half["image"].tolist())
    assert not {own.caption_id for own in known} & set(half["caption"].tolist())


@pytest.mark.parametrize("name", ["entailment", "cxc_captions", "cxc_images"])
def test_an_image_is_not_taken_for_an_invalid_caption_of_its_number(sample_library, name):
    content, nothing = sample_library.karpathy("test"), np.empty(0, np.int64)
    every = find_rated(sample_library, "test", schemes()[name], (nothing, nothing))
    swapped = find_rated(sample_library, "test", schemes()[name], (content.caption_ids, content.image_ids))
    assert [side.tolist() for pairs in swapped for side in pairs] == [
        side.tolist() for pairs in every for side in pairs
    ]
    assert every[0][0].size


def negatives_of(project):
    return pairs_of(own for sheet in project.rounds[-1].sheets for own in sheet if own.role == "known negative")


def test_no_known_negative_was_asked_about_in_an_earlier_round(sample_library, tmp_path):
    """People may have found that it matches."""
    runs = {"only": noisy_run(sample_library, 0)}
    project = Project.create(tmp_path / "mine", sample_library, name="ours")
    project = project.propose(runs, strategy="random", budget=1_500, size=10)
    again = project.propose(runs, strategy="random", budget=100, size=1, leave_open=True)
    assert len(negatives_of(again)) == 100
    assert not negatives_of(again) & pairs_of(project.candidates())


def test_no_known_negative_is_a_positive_of_a_source_that_the_strategy_leaves_out(sample_library, tmp_path):
    runs, positive, negatives = {"only": noisy_run(sample_library, 0)}, set(), set()
    for direction in ("i2t", "t2i"):
        judged = merged_qrels(sample_library, "test", direction, sources=["cxc", "eccv", "entailment"])
        pairs = ((query, item) for query, items in oracles.positives_of(judged).items() for item in items)
        positive |= {pair[:: 1 if direction == "i2t" else -1] for pair in pairs}
    for seed in range(3):
        project = Project.create(tmp_path / str(seed), sample_library, name="ours", seed=seed)
        negatives |= negatives_of(project.propose(runs, strategy="random", budget=250, size=1, sources=["coco"]))
    assert not negatives & positive


def test_equal_steps_give_equal_bytes(sample_library, runs, tmp_path, proposed):
    files = {}
    for name in ("one", "two"):
        folder = tmp_path / name
        library = sample_library if name == "one" else Library("sample")  # which has read nothing else
        project = Project.create(folder, library, name="ours").propose(runs, budget=10, size=5)
        for worker in ("ann", "ben"):
            file = write_answers(tmp_path / f"{worker}.jsonl", project, worker, knows(project))
            project = project.add_answers([file]).project
        project.merge()
        files[name] = content_of(folder)
    assert files["one"] == files["two"]
    kept = {name: content for name, content in content_of(proposed).items() if "answers" not in name}
    assert {name: files["one"][name] for name in kept} == kept


def test_the_same_request_is_answered_by_what_is_there(sample_library, tmp_path):
    files = save_runs(tmp_path, sample_library)
    models = {path.stem: load_run(path) for path in files}
    project = Project.create(tmp_path / "project", sample_library, name="ours").propose(models, budget=10, size=5)
    before = content_of(project.folder)
    assert project.propose(models, budget=10, size=5) is project
    for other in ({"budget": 11}, {"budget": 10, "without_reasons": True}):
        with pytest.raises(InvalidOption, match=r"2 of 2 sheets of round 1 have no answer yet.*--leave-open"):
            project.propose(models, size=5, **other)
    assert content_of(project.folder) == before
    after = project.propose(models, budget=11, size=5, leave_open=True)
    assert len(after.rounds) == 2
    assert after.propose(models, budget=11, size=5, leave_open=True) is after  # as after a kill behind the last write
    whole = write_answers(tmp_path / "ann.jsonl", after, "ann", knows(after))
    first = write_answers(tmp_path / "1.jsonl", after, "ann", knows(after), number=1)
    done = after.add_answers([whole, first]).project
    assert len(done.propose(models, budget=11, size=5).rounds) == 3  # nothing is open


def test_models_that_are_of_no_file_are_never_taken_for_the_same(copy, sample_library, runs):
    with pytest.raises(InvalidOption, match="no answer yet"):
        Project.open(copy(), sample_library).propose(runs, budget=10, size=5)


def test_where_nothing_is_left_to_ask_no_round_is_made(sample_library, tmp_path):
    run = {"only": noisy_run(sample_library, 0)}
    project = Project.create(tmp_path / "project", sample_library, name="ours").propose(run, depth=5, queries=(5, 0))
    before = content_of(project.folder)
    with pytest.raises(
        DataError, match=r"no pair left to ask about: of 25 proposed pairs, \d+ are known to match, .* asked before"
    ):
        project.propose(run, depth=5, queries=(5, 0), leave_open=True)
    assert content_of(project.folder) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"name": name}, "lower-case letters") for name in ("", "Mine", "1st", "my-labels", "mine\n")),
        *(({"name": name}, "is taken by a source") for name in ("coco", "cxc", "eccv", "entailment", "mined")),
        ({"scheme": "eccvs"}, "scheme"),
        ({"split": "tests"}, "split"),
    ],
)
def test_a_project_that_cannot_be_is_not_made(options, message, sample_library, tmp_path):
    with pytest.raises((InvalidOption, UnknownName), match=message):
        Project.create(tmp_path / "p", sample_library, **{"name": "ours", **options})
    with pytest.raises(InvalidOption, match="has no round yet"):
        Project.create(tmp_path / "p", sample_library, name="ours").round()
    assert not (tmp_path / "p").exists()


def test_a_round_that_another_process_adds_meanwhile_is_kept(copy, sample_library, runs):
    folder = copy("answered")
    first, second = Project.open(folder, sample_library), Project.open(folder, sample_library)
    first.propose(runs, budget=5, leave_open=True)
    before = content_of(folder)
    with pytest.raises(DataError, match=r"another process added round 3.*propose again"):
        second.propose(runs, budget=6, leave_open=True)
    assert content_of(folder) == before


def test_the_same_file_twice_changes_nothing(copy, sample_library, tmp_path):
    project = Project.open(copy(), sample_library)
    file = write_answers(tmp_path / "ann.jsonl", project, "ann", knows(project))
    first = project.add_answers([file])
    assert (first.added, first.number, first.changed, first.unfinished) == (14, 1, (), ())
    before = content_of(project.folder)
    again = first.project.add_answers([file, file])
    assert (again.added, again.project.answers()) == (0, first.project.answers())
    assert content_of(project.folder) == before
    changes = {"seconds": 99, "worker": " ANN"}
    slower = write_answers(tmp_path / "again.jsonl", project, "ann", knows(project), changes=changes)
    first.project.add_answers([slower])
    assert content_of(project.folder) == before  # the first time counts


def correct(file, place, path):
    """A copy of a file of answers with another answer in one place, its lines reversed."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[place]["answer"] = {"yes": "no", "no": "yes"}[rows[place]["answer"]]
    path.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
    return path


@pytest.mark.parametrize("together", [True, False])
def test_another_answer_of_a_worker_is_refused_with_both_places(copy, sample_library, tmp_path, together):
    project = Project.open(copy(), sample_library)
    file = write_answers(tmp_path / "monday.jsonl", project, "ann", knows(project))
    other = correct(file, 9, tmp_path / "friday.jsonl")
    if not together:
        project.add_answers([file])
    before = content_of(project.folder)
    with pytest.raises(MalformedSource, match=r"friday\.jsonl, line 5: .*'ann'.*monday\.jsonl, line 10.*--replace"):
        project.add_answers([file, other])
    assert content_of(project.folder) == before


def test_a_correction_says_what_it_changes_and_its_import_can_be_undone(copy, sample_library, tmp_path):
    project = Project.open(copy(), sample_library)
    file = write_answers(tmp_path / "monday.jsonl", project, "ann", knows(project))
    first = project.add_answers([file]).project
    stored = (project.folder / "rounds/1/answers.parquet").read_bytes()
    one = correct(file, 9, tmp_path / "friday.jsonl")
    one.write_text(one.read_text().splitlines(keepends=True)[4])  # nothing but the corrected line
    done = first.add_answers([one], replace=True)
    ((before, after),) = done.changed
    assert (done.number, done.added, before["answer"] != after["answer"]) == (2, 0, True)
    assert (before["origin"], after["origin"]) == ("monday.jsonl, line 10", "friday.jsonl, line 1")
    said = {row["pair_id"]: row["answer"] for row in done.project.answers().to_pylist()}
    assert said[after["pair_id"]] == after["answer"]
    undone = done.project.undo()
    assert (undone.number, undone.removed) == (2, 1)
    assert undone.project.answers() == first.answers()
    assert (project.folder / "rounds/1/answers.parquet").read_bytes() == stored


def test_undoing_an_import_takes_the_decisions_about_its_sheets_along(copy, sample_library, tmp_path):
    project = Project.open(copy("answered"), sample_library)
    file = write_answers(tmp_path / "cleo.jsonl", project, "cleo", knows(project), number=1)
    after = project.add_answers([file]).project
    after.decide({(0, "ann"): False, (1, "cleo"): False})
    undone = after.undo(2)
    assert undone.dropped == ((1, "cleo"),)
    assert read_checks(project.folder).by_hand == {(0, "ann"): False}
    assert set(undone.project.answers()["worker"].to_pylist()) == {"ann", "ben"}
    with pytest.raises(InvalidOption, match=r"has no import 7; it has 1"):
        undone.project.undo(7)
    assert undone.project.undo().project.answers().num_rows == 0
    with pytest.raises(InvalidOption, match="has no imports to undo"):
        undone.project.undo()


def test_one_bad_line_of_one_file_and_no_file_counts(copy, sample_library, tmp_path):
    project = Project.open(copy(), sample_library)
    good = write_answers(tmp_path / "ann.jsonl", project, "ann", knows(project))
    bad = write_answers(tmp_path / "ben.jsonl", project, "ben", knows(project))
    bad.write_text(bad.read_text().replace('"worker": "ben", "answer": "no"', '"worker": "ben", "answer": "maybe"', 1))
    before = content_of(project.folder)
    with pytest.raises(MalformedSource, match=r"ben\.jsonl, line"):
        project.add_answers([good, bad])
    assert content_of(project.folder) == before


def test_files_tell_which_round_they_answer(copy, sample_library, tmp_path):
    project = Project.open(copy("answered"), sample_library)
    files = [
        write_answers(tmp_path / f"{number}.jsonl", project, "cleo", knows(project), number=number) for number in (1, 2)
    ]
    after = project.add_answers(files).project
    assert [own.answers.num_rows for own in after.rounds] == [42, 11]
    for row in after.answers().to_pylist():
        assert row["pair_id"] in {question.pair_id for question in after.questions()[row["sheet"]]}


def test_a_project_of_an_older_version_is_read(copy, sample_library, tmp_path):
    """Its answers have no number of an import, its questions no other side, its checks are fewer."""
    folder = copy("answered")
    before = Project.open(folder, sample_library)
    for own in before.rounds:
        path = own.folder / "answers.parquet"
        rows = [{name: row[name] for name in row if name != "import"} for row in own.stored]
        schema = pa.schema([field for field in STORED_ANSWERS if field.name != "import"])
        table = pa.Table.from_pylist(rows, schema=schema)
        facts = {"questionnaire": own.questionnaire.id, "rows": checksum(table.to_pylist())}
        write_parquet(table.replace_schema_metadata({b"cxc_eccv": json.dumps(seal(facts))}), path)
        write_parquet(sheets_to_table(own.sheets).drop_columns("other"), own.folder / "questions.parquet")
        files = {name: sha256_of(own.folder / name) for name in own.facts["files"]}
        reseal(own.folder / "round.json", files=files)
    write_json(folder / "checks.json", {"schema": 1, "least_seconds": 0, "by_hand": []})
    after = Project.open(folder, sample_library)
    assert after.answers() == before.answers()
    assert after.questions() == before.questions()
    lines = write_answers(tmp_path / "a", after, "cleo", knows(after)).read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    local = [row | {"sheet": row["sheet"] - 2} for row in rows]  # as it numbered sheets
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in local))
    done = after.add_answers([tmp_path / "a.jsonl"])
    assert (done.number, set(done.project.rounds[1].answers["sheet"].to_pylist())) == (1, {2, 3})
    assert done.project.undo(0).project.rounds[0].answers.num_rows == 0


def test_two_imports_at_once_are_both_kept(copy, sample_library, tmp_path):
    project = Project.open(copy(), sample_library)
    for name in ("ann", "ben"):  # the second from a state that is not that of the folder any more
        done = project.add_answers([write_answers(tmp_path / f"{name}.jsonl", project, name, knows(project))])
        assert done.added == 14  # its own
    assert set(Project.open(project.folder, sample_library).answers()["worker"].to_pylist()) == {"ann", "ben"}


def test_a_step_waits_for_another_one_and_gives_up(copy, sample_library, tmp_path, monkeypatch, runs):
    project = Project.open(copy("answered"), sample_library)
    file = write_answers(tmp_path / "cleo.jsonl", project, "cleo", knows(project))
    before = content_of(project.folder)
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    with locked(project.folder / "rounds"):
        for step in (
            lambda: project.add_answers([file]),
            project.merge,
            lambda: project.decide({(0, "ann"): False}),
            project.undo,
            lambda: project.propose(runs, leave_open=True),
        ):
            with pytest.raises(WriteFailed, match="another process is writing"):
                step()
    assert content_of(project.folder) == before


def test_what_two_people_decide_at_once_is_both_kept(copy, sample_library):
    folder = copy("answered")
    first, second = Project.open(folder, sample_library), Project.open(folder, sample_library)
    ((before, after),) = first.decide({(0, "ann"): False}, least_seconds=2)
    assert (before.verdict, after.verdict, after.sheet, after.worker) == ("accepted", "rejected", 0, "ann")
    assert len(second.decide({(1, "ben"): False})) == 1
    assert read_checks(folder) == Checks(2.0, {(0, "ann"): False, (1, "ben"): False})
    assert second.decide({(1, "ben"): False}) == []
    before = content_of(folder)
    with pytest.raises(InvalidOption, match=r"sheet 9 of 'ann' is not among the answers.*here and in checks\.json"):
        second.decide({(9, "ann"): False})
    with pytest.raises(InvalidOption, match="worker 'anna' has no answers in this project"):
        second.decide(workers={"anna": False})
    assert content_of(folder) == before


def test_sheets_and_pairs_whose_answers_are_rejected_are_open_again(copy, sample_library, runs):
    project = Project.open(copy("answered"), sample_library)
    project.decide({(0, "ann"): False, (0, "ben"): False})
    assert project.open_sheets() == [0, 2, 3]
    asked = pairs_of(project.propose(runs, budget=30, size=30, leave_open=True).rounds[2].candidates)
    first, *others = ([own for own in sheet if own.role == "candidate"] for sheet in project.questions())
    assert pairs_of(first) <= asked
    assert not any(pairs_of(sheet) & asked for sheet in others)


def test_labels_of_a_project(copy, sample_library):
    project = Project.open(copy("answered"), sample_library)
    citation = "@misc{ours,\n title={Ours}\n}"
    terms = {"version": "1.2.0", "rule": "all", "licence": "cc-by-4.0", "citation": citation}
    labels = project.merge(**terms)
    assert read_labels(project.folder / "labels.parquet").table.equals(labels.table)
    assert labels.facts.items() >= {"name": "ours", "split": "test", "scheme": "eccv", "people": 2, **terms}.items()
    assert labels.facts["models"] == ["model-0", "model-1", "model-2", "other"]
    assert labels.facts["sheets"] == {"accepted": 4}
    found = {(row["image_id"], row["caption_id"]): row for row in labels.table.to_pylist()}
    assert found.keys() == pairs_of(project.rounds[0].candidates)
    assert all(row["positive"] == (sum(pair) % 3 == 0) and row["answers"] == 2 for pair, row in found.items())
    card = (project.folder / "README.md").read_text(encoding="utf-8")
    assert [part for part in ("1.2.0", "license: cc-by-4.0", citation) if part not in card] == []
    before = content_of(project.folder)
    project.merge(**terms)
    assert content_of(project.folder) == before


def test_without_answers_that_count_there_are_no_labels(copy, sample_library, tmp_path):
    project = Project.open(copy(), sample_library)
    before = content_of(project.folder)
    with pytest.raises(DataError, match="nobody has answered yet"):
        project.merge()
    careless = write_answers(tmp_path / "a.jsonl", project, "ann", lambda image, caption: "no")
    after = project.add_answers([careless]).project
    with pytest.raises(DataError, match="none of 2 answered sheets is accepted"):
        after.merge()
    assert before.keys() == content_of(project.folder).keys()


def test_a_card_of_somebody_or_that_was_changed_is_kept_and_one_that_was_not_is_replaced(copy, sample_library):
    project = Project.open(copy("answered"), sample_library)
    card = project.folder / "README.md"
    card.write_text("How we made labels.parquet.")
    with pytest.raises(DataError, match=r"README\.md is not the card of the last merge.*Move it away"):
        project.merge()
    assert card.read_text() == "How we made labels.parquet."
    assert not (project.folder / "labels.parquet").exists()
    card.unlink()
    project.merge()
    card.write_bytes(card.read_bytes().replace(b"\n", b"\r\n"))  # as version control may
    project.merge(version="1.0.1")
    cut(project.folder / "labels.parquet")
    project.merge(version="1.0.1")
    assert read_labels(project.folder / "labels.parquet").facts["version"] == "1.0.1"
    card.write_text(text := card.read_text().replace("license: unknown", "license: cc0-1.0"))
    with pytest.raises(DataError, match="or was changed since"):
        project.merge(version="1.0.2")
    assert card.read_text() == text
    assert read_labels(project.folder / "labels.parquet").facts["version"] == "1.0.1"


def test_what_cannot_be_labels_leaves_card_and_labels_as_they_were(copy, sample_library):
    project = Project.open(copy("answered"), sample_library)
    project.merge()
    before = content_of(project.folder)
    for options in ({"version": " "}, {"licence": "cc-by"}, {"citation": "Ours, 2026"}, {"rule": "most"}):
        with pytest.raises((MalformedSource, UnknownName, InvalidOption), match=next(iter(options))):
            project.merge(**options)
        assert content_of(project.folder) == before


def test_labels_are_compared_with_what_official_sources_say(copy, sample_library):
    """A label against one of COCO's links, one that agrees with it, and one of a pair that nobody judged."""
    labels = Project.open(copy("answered"), sample_library).merge()
    assert compare_labels(labels, sample_library).num_rows == 0  # what sources judge is not asked about
    content = sample_library.karpathy("test")
    own = list(zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True))[:2]
    rows = [
        {"image_id": image, "caption_id": caption, "gain": float(positive), "positive": positive, "answers": 1}
        for (image, caption), positive in zip(own, (False, True), strict=True)
    ]
    table = pa.concat_tables([labels.table, pa.Table.from_pylist(rows, schema=labels.table.schema)])
    found = compare_labels(replace(labels, table=table), sample_library).to_pylist()
    links = [row for row in found if row["source"] == "coco"]
    assert sorted((row["image_id"], row["caption_id"], row["positive"], row["source_positive"]) for row in links) == (
        sorted([(*own[0], False, True), (*own[1], True, True)])
    )


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def drop_row(path):
    write_parquet(read_parquet(path).slice(1), path)


def reseal(path, **changes):
    content = json.loads(path.read_text())
    write_json(path, seal({name: content[name] for name in content.keys() - {"schema", "checksum"}} | changes))


def swap_answers(path):
    """Those of round 1 in the place of those of round 2."""
    shutil.copy(path, path.parents[1] / "2" / path.name)


def replace_round(path):
    shutil.rmtree(path)
    shutil.copytree(path.with_name("2"), path)


def change_answer(path):
    """As a script might, which keeps the file's metadata."""
    table = pq.read_table(path)
    gains = pa.array([0.5] * table.num_rows)
    write_parquet(table.set_column(table.column_names.index("gain"), "gain", gains), path)


DAMAGE = {
    "an edited project": ("annotation.json", lambda f: edit(f, '"ours"', '"mine"'), r"annotation\.json: .*changed"),
    "a cut project": ("annotation.json", cut, r"annotation\.json, line \d+.*valid JSON"),
    "an empty project": ("annotation.json", lambda f: f.write_text(""), r"annotation\.json.*empty"),
    "another version": (
        "annotation.json",
        lambda f: edit(f, '"schema": 1', '"schema": 2'),
        "schema: found 2",
    ),
    "a project that is a list": ("annotation.json", lambda f: f.write_text("[]"), "an object"),
    "a scheme that is not known": ("annotation.json", lambda f: reseal(f, scheme="later"), "scheme in .*'later'"),
    "another project's file": ("annotation.json", lambda f: reseal(f, seed=5), "round 1 of another project"),
    "a project without its file": ("annotation.json", Path.unlink, r"annotation\.json is missing; restore"),
    "a missing round": ("rounds/1", shutil.rmtree, r"rounds/1 is missing, but a later round exists"),
    "a missing last round": ("rounds/2", shutil.rmtree, "rounds has 1 of the 2 rounds .*; restore"),
    "a round without its file": ("rounds/1/round.json", Path.unlink, r"1/round\.json is missing; restore"),
    "a round without questions": ("rounds/2/questions.parquet", Path.unlink, r"questions\.parquet is missing; restore"),
    "an edited round": ("rounds/1/round.json", lambda f: edit(f, '"budget": 10', '"budget": 11'), "changed after"),
    "a round that was renamed": ("rounds/2", lambda f: f.rename(f.with_name("3")), "rounds/2 is missing"),
    "a round in the place of another": ("rounds/1", replace_round, "found round 2, expected round 1"),
    "candidates without a row": ("rounds/1/candidates.parquet", drop_row, "a changed table"),
    "known pairs that were cut": ("rounds/1/known.parquet", cut, "a changed table"),
    "questions without a row": ("rounds/1/questions.parquet", drop_row, "a changed table"),
    "answers that were cut": ("rounds/1/answers.parquet", cut, r"answers\.parquet.* expected a table of answers"),
    "answers that were lost": ("rounds/1/answers.parquet", Path.unlink, r"1/answers\.parquet is missing; restore"),
    "answers without a row": ("rounds/1/answers.parquet", drop_row, "answers that were changed"),
    "answers that were changed": ("rounds/1/answers.parquet", change_answer, "answers that were changed"),
    "answers of another round": ("rounds/1/answers.parquet", swap_answers, "answers to other questions"),
    "answers of anybody": (
        "rounds/1/answers.parquet",
        lambda f: write_parquet(pa.table({"a": [1]}), f),
        r"answers\.parquet.* expected a table of answers",
    ),
}


@pytest.mark.parametrize(("name", "spoil", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_refused_with_its_place(name, spoil, message, copy, sample_library):
    folder = copy("answered")
    spoil(folder / name)
    with pytest.raises((DataError, UnknownName), match=message) as raised:
        Project.open(folder, sample_library)
    assert str(folder) in str(raised.value)


def test_line_ends_that_version_control_changes_are_no_damage(copy, sample_library):
    folder = copy("answered")
    for path in folder.rglob("*.json"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert len(Project.open(folder, sample_library).rounds) == 2


def test_other_data_is_refused_with_both_editions(copy, sample_library):
    folder = copy()
    project = Project.open(folder, sample_library)
    reseal(folder / "annotation.json", data={**project.data, "content": "0" * 64, "edition": "official"})
    with pytest.raises(DataError, match=r"edition official, with 60 images.*this data is another: edition sample"):
        Project.open(folder, sample_library)


def test_a_folder_that_is_no_project_and_a_file_in_the_place_of_one(sample_library, tmp_path):
    (tmp_path / "file").write_text("x")
    for place in (tmp_path, tmp_path / "none", tmp_path / "file"):
        with pytest.raises(SourceMissing, match=r"is not an annotation project.*annotate propose makes a project"):
            Project.open(place, sample_library)
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(WriteFailed, match="A file stands where a folder is needed"):
            Project.create(place, sample_library, name="ours")


def test_a_folder_that_cannot_be_written_is_said_before_the_work(sample_library, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(WriteFailed, match="Choose a place that you may write"):
        Project.create(tmp_path / "p", sample_library, name="ours")


def test_rounds_and_labels_are_not_written_over_by_a_new_project(copy, sample_library):
    folder = copy("answered")
    with pytest.raises(InvalidOption, match="is an annotation project already"):
        Project.create(folder, sample_library, name="ours")
    Project.open(folder, sample_library).merge()
    shutil.rmtree(folder / "rounds")
    with pytest.raises(InvalidOption, match="not the rounds that it was made of"):
        Project.create(folder, sample_library, name="ours")
    (folder / "labels.parquet").unlink()
    with pytest.raises(SourceMissing, match="rounds has 0 of the 2 rounds"):
        Project.create(folder, sample_library, name="ours")


def visible(folder):
    """All but hidden files, such as a lock that nobody holds any more."""
    files = content_of(folder)
    return {name: files[name] for name in files if not any(part.startswith(".") for part in Path(name).parts)}


def state(folder):
    """What a project holds: not its card, nor whether its last round is counted, nor a project that has no round."""
    files = visible(folder)
    files.pop("README.md", None)
    if not any(name.startswith("rounds/") for name in files):
        return {}
    facts = json.loads(files.pop("annotation.json"))
    return files | {"facts": {name: facts[name] for name in facts if name not in ("rounds", "checksum")}}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process must be forked")
@pytest.mark.parametrize("step", ["propose", "import", "merge"])
def test_a_step_that_is_killed_leaves_what_was_there_and_the_next_goes_on(step, copy, sample_library, tmp_path):
    folder, files = tmp_path / "none", save_runs(tmp_path, sample_library, seeds=(0,))
    if step != "propose":
        folder = copy("proposed" if step == "import" else "answered")
        project = Project.open(folder, sample_library)
        files = [write_answers(tmp_path / "cleo.jsonl", project, "cleo", knows(project), number=1)]
    if step == "merge":
        Project.open(folder, sample_library).merge(version="0.0.9")
    worker, work = Path(__file__).with_name("killed_steps.py"), tmp_path / "work"
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    command = [sys.executable, str(worker), str(folder), step, str(work), *map(str, files)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"})
    found = json.loads((work / "found.json").read_text())
    *killed, whole = found
    assert whole == {"status": 0, "again": 0}
    assert len(killed) > 2
    before, after = state(folder), state(work / str(len(killed)) / "left")
    assert after not in ({}, before)
    for place, outcome in enumerate(killed):
        assert outcome == {"status": signal.SIGKILL, "again": 0}
        assert state(work / str(place) / "left") in (before, after), place
        assert visible(work / str(place) / "project") == visible(work / str(len(killed)) / "project"), place
        assert not list((work / str(place)).rglob("project/**/*.building")), place


def test_a_round_whose_writer_died_before_it_was_counted_is_counted_by_the_next_step(copy, sample_library, tmp_path):
    folder = copy("proposed")
    before = content_of(folder)
    reseal(folder / "annotation.json", rounds=0)
    project = Project.open(folder, sample_library)
    assert len(project.rounds) == 1
    project.add_answers([write_answers(tmp_path / "ann.jsonl", project, "ann", knows(project))])
    assert content_of(folder)["annotation.json"] == before["annotation.json"]
