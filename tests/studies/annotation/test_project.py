"""The state of a project: what each step writes, what it refuses, and what a killed one leaves."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import oracles
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from annotated_projects import content_of, knows, noisy_run, pairs_of, save_runs, write_answers
from full_disk import files_of_at_most

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing, UnknownName, WriteFailed
from cxc_eccv.judgments.merging import merged_qrels
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_labels
from cxc_eccv.studies.annotation import project_files as module
from cxc_eccv.studies.annotation.annotation_report import report_project
from cxc_eccv.studies.annotation.exporting import Export, export_questions
from cxc_eccv.studies.annotation.merging import merge_labels
from cxc_eccv.studies.annotation.project import Project, apply_decision
from cxc_eccv.studies.annotation.project_files import Decision, Terms, read_decisions
from cxc_eccv.studies.annotation.proposing import CANDIDATES, ProposalOptions
from cxc_eccv.studies.annotation.source_labels import compare_labels, find_rated
from cxc_eccv.studies.asking.answer_files import list_rows
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.sheet_quality import Checks
from cxc_eccv.writing import locked

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def runs(sample_library):
    return {f"model-{seed}": noisy_run(sample_library, seed) for seed in range(3)}


@pytest.fixture(scope="module")
def proposed(sample_library, runs, tmp_path_factory):
    """A project with a round of two sheets of five candidates, which nobody has answered."""
    folder = tmp_path_factory.mktemp("proposed") / "project"
    Project.create(folder, sample_library, name="ours").propose(runs, ProposalOptions(budget=10), size=5)
    return folder


@pytest.fixture(scope="module")
def answered(proposed, sample_library, tmp_path_factory):
    """The same with the answers of two people, and a second round without any."""
    folder = tmp_path_factory.mktemp("answered") / "project"
    shutil.copytree(proposed, folder)
    project = Project.open(folder, sample_library)
    files = [write_answers(folder.parent / f"{name}.jsonl", project, name, knows(project)) for name in ("ann", "ben")]
    project.add_answers(files).project.propose(
        {"other": noisy_run(sample_library, 7)}, ProposalOptions(budget=7), size=5
    )
    return folder


@pytest.fixture
def copy(tmp_path, proposed, answered):
    """A project to spoil."""

    def make(which="proposed"):
        return Path(shutil.copytree({"proposed": proposed, "answered": answered}[which], tmp_path / which))

    return make


def test_a_project_is_read_as_it_was_made(answered, sample_library):
    project = Project.open(answered, sample_library)
    assert (project.name, project.scheme.name, project.split.name, project.facts.seed) == ("ours", "eccv", "test", 0)
    assert [len(own.sheets) for own in project.rounds] == [2, 2]
    assert [own.candidates.num_rows for own in project.rounds] == [10, 7]
    assert project.rounds[0].facts.counts["candidates"] == 10
    assert sorted(project.rounds[0].facts.models) == ["model-0", "model-1", "model-2"]
    assert project.candidates.num_rows == 17
    assert len(project.questions) == 4
    assert project.open_sheets() == [2, 3]
    assert project.open_sheets(2) == [2, 3]
    assert project.open_sheets(3) == [0, 1, 2, 3]
    assert [own.numbers for own in project.rounds] == [range(2), range(2, 4)]


def test_no_known_pair_is_one_that_describes_nothing(sample_library, runs, tmp_path, monkeypatch):
    content = sample_library.split("test")
    half = {"image": content.image_ids[::2], "caption": content.caption_ids[::2]}
    monkeypatch.setattr(Library, "invalid_ids", lambda _, kind: half[kind])
    project = Project.create(tmp_path / "mine", sample_library, name="ours").propose(
        runs, ProposalOptions(budget=20), size=5
    )
    known = [own for sheet in project.rounds[0].sheets for own in sheet if own.role != "candidate"]
    assert len(known) == 8
    assert not {own.image_id for own in known} & set(half["image"].tolist())
    assert not {own.caption_id for own in known} & set(half["caption"].tolist())


@pytest.mark.parametrize("name", ["entailment", "cxc_captions", "cxc_images"])
def test_image_id_is_not_taken_for_caption_id(sample_library, name):
    content = sample_library.split("test")
    nothing = np.empty(0, np.int64)
    every = find_rated(sample_library.split("test"), schemes()[name], (nothing, nothing))
    swapped = find_rated(sample_library.split("test"), schemes()[name], (content.caption_ids, content.image_ids))
    assert [side.tolist() for pairs in swapped for side in pairs] == [
        side.tolist() for pairs in every for side in pairs
    ]
    assert every[0][0].size


def negatives_of(project):
    return pairs_of(own for sheet in project.rounds[-1].sheets for own in sheet if own.role == "known negative")


def test_known_negatives_were_not_asked_before(sample_library, tmp_path):
    """People may have found that it matches."""
    runs = {"only": noisy_run(sample_library, 0)}
    project = Project.create(tmp_path / "mine", sample_library, name="ours")
    project = project.propose(runs, ProposalOptions(strategy="random", budget=1_500), size=10)
    again = project.propose(runs, ProposalOptions(strategy="random", budget=100), size=1, leave_open=True)
    assert len(negatives_of(again)) == 100
    assert not negatives_of(again) & pairs_of(project.candidates)


def test_known_negatives_are_positive_in_no_source(sample_library, tmp_path):
    runs = {"only": noisy_run(sample_library, 0)}
    positive = set()
    negatives = set()
    for direction in ("i2t", "t2i"):
        judged = merged_qrels(sample_library.split("test"), direction, sources=["cxc", "eccv", "entailment"])
        pairs = ((query, item) for query, items in oracles.positives_of(judged).items() for item in items)
        positive |= {pair[:: 1 if direction == "i2t" else -1] for pair in pairs}
    for seed in range(3):
        project = Project.create(tmp_path / str(seed), sample_library, name="ours", seed=seed)
        negatives |= negatives_of(
            project.propose(runs, ProposalOptions(strategy="random", budget=250, sources=["coco"]), size=1)
        )
    assert not negatives & positive


def test_equal_steps_give_equal_bytes(sample_library, runs, tmp_path, proposed):
    files = {}
    for name in ("one", "two"):
        folder = tmp_path / name
        library = sample_library if name == "one" else Library("sample")  # which has read nothing else
        project = Project.create(folder, library, name="ours").propose(runs, ProposalOptions(budget=10), size=5)
        for worker in ("ann", "ben"):
            file = write_answers(tmp_path / f"{worker}.jsonl", project, worker, knows(project))
            project = project.add_answers([file]).project
        merge_labels(project)
        files[name] = content_of(folder)
    assert files["one"] == files["two"]
    kept = {name: content for name, content in content_of(proposed).items() if "answers" not in name}
    assert {name: files["one"][name] for name in kept} == kept


def test_nothing_left_to_ask_makes_no_round(sample_library, tmp_path):
    """The project stays as it was."""
    run = {"only": noisy_run(sample_library, 0)}
    project = Project.create(tmp_path / "project", sample_library, name="ours").propose(
        run, ProposalOptions(depth=5, queries=(5, 0))
    )
    before = content_of(project.folder)
    with pytest.raises(
        DataError, match=r"no pair left to ask about: of 25 proposed pairs, \d+ are known to match, .* asked before"
    ):
        project.propose(run, ProposalOptions(depth=5, queries=(5, 0)), leave_open=True)
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
    Project.create(tmp_path / "p", sample_library, name="ours")  # writes nothing
    assert not (tmp_path / "p").exists()


def test_round_added_by_another_process_is_kept(copy, sample_library, runs):
    """The second process is told to propose again."""
    folder = copy("answered")
    first = Project.open(folder, sample_library)
    second = Project.open(folder, sample_library)
    first.propose(runs, ProposalOptions(budget=5), leave_open=True)
    before = content_of(folder)
    with pytest.raises(DataError, match=r"another process added round 3.*propose again"):
        second.propose(runs, ProposalOptions(budget=6), leave_open=True)
    assert content_of(folder) == before


def test_the_same_file_twice_changes_nothing(copy, sample_library, tmp_path):
    project = Project.open(copy(), sample_library)
    file = write_answers(tmp_path / "ann.jsonl", project, "ann", knows(project))
    first = project.add_answers([file])
    assert (first.added, first.changed, first.unfinished) == (14, (), ())
    before = content_of(project.folder)
    again = first.project.add_answers([file, file])
    assert again.added == 0
    assert again.project.answers.equals(first.project.answers)
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
def test_second_answer_of_worker_is_refused_with_places(copy, sample_library, tmp_path, together):
    project = Project.open(copy(), sample_library)
    file = write_answers(tmp_path / "monday.jsonl", project, "ann", knows(project))
    other = correct(file, 9, tmp_path / "friday.jsonl")
    if not together:
        project.add_answers([file])
    before = content_of(project.folder)
    with pytest.raises(MalformedSource, match=r"friday\.jsonl, line 5: .*'ann'.*monday\.jsonl, line 10.*--replace"):
        project.add_answers([file, other])
    assert content_of(project.folder) == before


def test_a_later_answer_corrects_an_earlier_one(copy, sample_library, tmp_path):
    project = Project.open(copy(), sample_library)
    file = write_answers(tmp_path / "monday.jsonl", project, "ann", knows(project))
    first = project.add_answers([file]).project
    lines = (project.folder / "answers.jsonl").read_bytes()
    one = correct(file, 9, tmp_path / "friday.jsonl")
    one.write_text(one.read_text().splitlines(keepends=True)[4])  # nothing but the corrected line
    done = first.add_answers([one], replace=True)
    ((before, after),) = done.changed
    assert (done.added, before.answer != after.answer) == (0, True)
    assert (before.origin, after.origin) == ("monday.jsonl, line 10", "friday.jsonl, line 1")
    said = {row["pair_id"]: row["answer"] for row in list_rows(done.project.answers)}
    assert said[after.pair_id] == after.answer
    same = first.answers.columns.drop(["answer", "gain", "positive"])
    assert done.project.answers[same].equals(first.answers[same])
    assert (project.folder / "answers.jsonl").read_bytes().startswith(lines)


def test_one_bad_line_rejects_all_files(copy, sample_library, tmp_path):
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
    assert [sum(response.sheet in own.numbers for response in after.responses) for own in after.rounds] == [42, 11]
    for row in list_rows(after.answers):
        assert row["pair_id"] in {question.pair_id for question in after.questions[row["sheet"]]}


def test_two_imports_at_once_are_both_kept(copy, sample_library, tmp_path):
    project = Project.open(copy(), sample_library)
    for name in ("ann", "ben"):  # the second from a state that is not that of the folder any more
        done = project.add_answers([write_answers(tmp_path / f"{name}.jsonl", project, name, knows(project))])
        assert done.added == 14  # its own
    assert set(Project.open(project.folder, sample_library).answers["worker"]) == {"ann", "ben"}


def test_step_waits_for_a_lock_then_fails(copy, sample_library, tmp_path, monkeypatch, runs):
    project = Project.open(copy("answered"), sample_library)
    file = write_answers(tmp_path / "cleo.jsonl", project, "cleo", knows(project))
    before = content_of(project.folder)
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    with locked(project.folder / "rounds.jsonl"):
        for step in (
            lambda: project.add_answers([file]),
            lambda: merge_labels(project),
            lambda: project.decide(Decision({(0, "ann"): False})),
            lambda: project.propose(runs, leave_open=True),
        ):
            with pytest.raises(WriteFailed, match="another process is writing"):
                step()
    assert content_of(project.folder) == before


def find_rejected(project):
    rejected = project.verdicts[project.verdicts["verdict"] == "rejected"]
    return list(zip(rejected["sheet"], rejected["worker"], strict=True))


def test_concurrent_decisions_are_both_kept(copy, sample_library):
    folder = copy("answered")
    first = Project.open(folder, sample_library)
    second = Project.open(folder, sample_library)
    after = first.decide(Decision({(0, "ann"): False}, least_seconds=2))
    assert find_rejected(first) == []
    assert find_rejected(after) == [(0, "ann")]
    assert find_rejected(second.decide(Decision({(1, "ben"): False}))) == [(0, "ann"), (1, "ben")]
    assert read_decisions(folder).checks == Checks(2.0, {(0, "ann"): False, (1, "ben"): False})
    before = content_of(folder)
    second.decide(Decision({(1, "ben"): False}))
    assert content_of(folder) == before


def test_accepted_person_has_doubtful_sheets_accepted_unless_decided(copy, sample_library):
    answers = Project.open(copy("answered"), sample_library).answers
    before = Checks(least_seconds=1_000, rejected_workers=frozenset(["ann"]))
    after = apply_decision(before, Decision({(1, "ann"): False}, {"ann": True}), answers)
    assert after.by_hand == {(0, "ann"): True, (1, "ann"): False}
    assert after.rejected_workers == frozenset()
    assert before == Checks(least_seconds=1_000, rejected_workers=frozenset(["ann"]))


@pytest.mark.parametrize("step", ["check", "merge", "report"])
def test_command_reads_rounds_once(copy, command, monkeypatch, step):
    """The dearest part of a project, with all questions and the hashes of their texts."""
    folder = copy("answered")
    read = []
    monkeypatch.setattr(module, "_read_round", lambda *line, call=module._read_round: read.append(line) or call(*line))
    command(step, folder, *(["--accept", "ann", "--least-seconds", "1000"] if step == "check" else []))
    assert len(read) == 2


def test_rejected_answers_reopen_their_sheets_and_pairs(copy, sample_library, runs):
    project = Project.open(copy("answered"), sample_library)
    project = project.decide(Decision({(0, "ann"): False, (0, "ben"): False, (1, "ben"): False}))
    assert project.open_sheets() == [0, 2, 3]
    asked = pairs_of(project.propose(runs, ProposalOptions(budget=30), size=30, leave_open=True).rounds[2].candidates)
    first, *others = ([own for own in sheet if own.role == "candidate"] for sheet in project.questions)
    assert pairs_of(first) <= asked
    assert not any(pairs_of(sheet) & asked for sheet in others)


@pytest.fixture
def asked_twice(copy, sample_library, runs, tmp_path):
    """A project whose third round asks again about the pairs of the first sheet, whose answers were rejected."""
    project = Project.open(copy("answered"), sample_library)
    project = project.decide(Decision({(0, "ann"): False, (0, "ben"): False}))
    models = runs | {"late": noisy_run(sample_library, 8)}
    project = project.propose(models, ProposalOptions(budget=60), size=20, leave_open=True)
    return project.add_answers([write_answers(tmp_path / "cleo.jsonl", project, "cleo", knows(project))]).project


def test_pair_of_several_rounds_has_all_proposals_once(asked_twice):
    first, *_, last = asked_twice.rounds
    again = pairs_of(first.candidates) & pairs_of(last.candidates)
    assert again
    proposals = {pair: set() for pair in again}
    for round_ in (first, last):
        for row in round_.candidates.to_pylist():
            pair = row["image_id"], row["caption_id"]
            if pair in again:
                proposals[pair] |= {tuple(proposal.values()) for proposal in row["proposals"]}
    assert {model for lists in proposals.values() for model, *_ in lists} >= {"model-1", "late"}
    candidates = asked_twice.candidates
    assert candidates.num_rows == len(pairs_of(candidates))
    merge_labels(asked_twice)
    for table in (candidates, pq.read_table(asked_twice.folder / "labels.parquet")):
        rows = {(row["image_id"], row["caption_id"]): row["proposals"] for row in table.to_pylist()}
        for pair in again & rows.keys():
            listed = [tuple(proposal.values()) for proposal in rows[pair]]
            assert len(listed) == len(set(listed))
            assert set(listed) == proposals[pair]


def test_report_counts_pair_of_several_rounds_once(asked_twice):
    report = report_project(asked_twice)
    assert report.candidates == len(set.union(*(pairs_of(own.candidates) for own in asked_twice.rounds)))
    accepted = {(sheet.sheet, sheet.worker) for sheet in report.sheets.itertuples() if sheet.verdict == "accepted"}
    models = {(row["image_id"], row["caption_id"]): set() for row in asked_twice.candidates.to_pylist()}
    for round_ in asked_twice.rounds:
        for row in round_.candidates.to_pylist():
            lists = {(one["model"], one["direction"], one["rank"]) for one in row["proposals"]}
            models[row["image_id"], row["caption_id"]] |= lists
    counts = Counter()
    for row in list_rows(asked_twice.answers):
        if (row["sheet"], row["worker"]) in accepted and row["role"] == "candidate":
            counts.update(model for model, *_ in models[row["image_id"], row["caption_id"]])
    lines = [line for line in report.record()["by_rank"] if line["rank"] is None and line["model"] in counts]
    assert {line["model"]: sum(line["counts"]) for line in lines} == dict(counts)


def test_drawn_pair_asked_again_keeps_its_probability(asked_twice):
    first, *others = asked_twice.rounds
    drawn = first.candidates.set_column(3, "strategy", pa.array(["active"] * first.candidates.num_rows))
    drawn = drawn.set_column(4, "priority", pa.array([0.25] * drawn.num_rows)).cast(CANDIDATES)
    project = replace(asked_twice, rounds=(replace(first, candidates=drawn), *others))
    again = pairs_of(drawn) & pairs_of(others[-1].candidates)
    rows = {(row["image_id"], row["caption_id"]): row for row in project.candidates.to_pylist()}
    assert {(rows[pair]["strategy"], rows[pair]["priority"]) for pair in again} == {("active", 0.25)}


def test_labels_of_a_project(copy, sample_library):
    project = Project.open(copy("answered"), sample_library)
    citation = "@misc{ours,\n title={Ours}\n}"
    terms = {"version": "1.2.0", "rule": "mean", "licence": "cc-by-4.0", "citation": citation}
    labels = merge_labels(project, Terms(**terms))
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
    merge_labels(project, Terms(**terms))
    assert content_of(project.folder) == before


def test_terms_of_labels_hold_until_others_are_given(copy, sample_library):
    project = Project.open(copy("answered"), sample_library)
    terms = {"version": "2.0.0", "rule": "mean", "least_answers": 2, "licence": "cc-by-4.0", "citation": "@misc{a, b}"}
    merge_labels(project, Terms(**terms))
    (project.folder / "labels.parquet").unlink()
    assert merge_labels(project).facts.items() >= terms.items()
    assert "license: cc-by-4.0" in (project.folder / "README.md").read_text()
    assert merge_labels(project, Terms(version="2.1.0")).facts.items() >= (terms | {"version": "2.1.0"}).items()


def test_card_has_the_wording_each_person_saw(copy, sample_library, tmp_path):
    project = Project.open(copy("answered"), sample_library)
    (tmp_path / "texts.json").write_text(json.dumps({"language": "de", "question": "Passt es?"}))
    (tmp_path / "instructions.md").write_text("Schau hin.")
    options = {"images": "images/{file_name}", "sheets": [0, 1], "texts": tmp_path}
    export_questions(project, tmp_path / "trial", Export(**options))
    export_questions(project, tmp_path / "all", Export(images="images/{file_name}", sheets=[0, 1]))
    export_questions(project, tmp_path / "ben", Export(**options, worker="Ben"))
    before = content_of(project.folder)
    export_questions(project, tmp_path / "again", Export(**options, worker="ben"))
    assert content_of(project.folder) == before
    asked = merge_labels(project).facts["asked"]
    words = [(own["sheets"], own["language"], own["question"], own["instructions"]) for own in asked]
    scheme = project.scheme
    assert sorted(words) == [
        (2, "de", "Passt es?", ["Schau hin."]),
        (project_sheets(project) - 2, "en", scheme.question, list(scheme.instructions)),
    ]
    card = (project.folder / "README.md").read_text(encoding="utf-8")
    assert "> Schau hin.\n>\n> Passt es?\n" in card


def project_sheets(project):
    """Sheets and people with answers."""
    return len({response.key for response in project.responses})


def test_without_answers_that_count_there_are_no_labels(copy, sample_library, tmp_path):
    project = Project.open(copy(), sample_library)
    before = content_of(project.folder)
    with pytest.raises(DataError, match="nobody has answered yet"):
        merge_labels(project)
    careless = write_answers(tmp_path / "a.jsonl", project, "ann", lambda image, caption: "no")
    after = project.add_answers([careless]).project
    with pytest.raises(DataError, match="none of 2 answered sheets is accepted"):
        merge_labels(after)
    assert before.keys() | {"answers.jsonl"} == content_of(project.folder).keys()


REFUSED_STEPS = {
    "version-of-spaces": (lambda project: merge_labels(project, Terms(version=" ")), MalformedSource, "version"),
    "citation-of-another-form": (
        lambda project: merge_labels(project, Terms(citation="Ours, 2026")),
        InvalidOption,
        "citation",
    ),
    "unknown-rule": (lambda project: merge_labels(project, Terms(rule="most")), UnknownName, "rule"),
    "sheet-without-answers": (
        lambda project: project.decide(Decision({(9, "ann"): False})),
        InvalidOption,
        "sheet 9 of 'ann' is not among the answers",
    ),
    "person-without-answers": (
        lambda project: project.decide(Decision(workers={"anna": False})),
        InvalidOption,
        "worker 'anna' has no answers in this project",
    ),
    "round-without-answers": (
        lambda project: project.propose({}),
        InvalidOption,
        r"2 of 2 sheets of round 2 have no answer yet",
    ),
}


@pytest.mark.parametrize("fault", REFUSED_STEPS)
def test_refused_step_changes_no_file(copy, sample_library, fault):
    step, error, message = REFUSED_STEPS[fault]
    project = Project.open(copy("answered"), sample_library)
    merge_labels(project)
    before = content_of(project.folder)
    with pytest.raises(error, match=message):
        step(project)
    assert content_of(project.folder) == before


def test_labels_are_compared_with_what_official_sources_say(copy, sample_library):
    """A label against one of COCO's links, one that agrees with it, and one of a pair that nobody judged."""
    labels = merge_labels(Project.open(copy("answered"), sample_library))
    assert compare_labels(labels, sample_library).num_rows == 0  # what sources judge is not asked about
    content = sample_library.split("test")
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


def test_unwritable_folder_is_reported_before_the_work(sample_library, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError):
        Project.create(tmp_path / "p", sample_library, name="ours")


def test_card_of_somebody_else_is_kept(copy, sample_library):
    project = Project.open(copy("answered"), sample_library)
    card = project.folder / "README.md"
    card.write_text("How we made labels.parquet.")
    with pytest.raises(DataError, match=r"README\.md is not a card that annotate merge replaces.*Move it away"):
        merge_labels(project)
    assert card.read_text() == "How we made labels.parquet."
    assert not (project.folder / "labels.parquet").exists()
    card.unlink()
    merge_labels(project)
    card.write_bytes(card.read_bytes().replace(b"\n", b"\r\n"))  # as version control may
    merge_labels(project, Terms(version="1.0.1"))
    assert read_labels(project.folder / "labels.parquet").facts["version"] == "1.0.1"
    card.write_text(text := card.read_text().partition("<!-- made by")[0])
    with pytest.raises(DataError, match="is not a card that"):
        merge_labels(project, Terms(version="1.0.2"))
    assert card.read_text() == text
    assert read_labels(project.folder / "labels.parquet").facts["version"] == "1.0.1"


def edit_line(path, number, change):
    lines = path.read_text().splitlines()
    row = json.loads(lines[number])
    change(row)
    lines[number] = json.dumps(row)
    path.write_text("".join(f"{line}\n" for line in lines))


EDITED = [
    ("rounds", 1, lambda row: row["project"].update(seed=5), "line 2: found round 2, perhaps of another project"),
    ("rounds", 0, lambda row: row["sheets"][0][0].update(caption="Another."), "does not match its id"),
    ("rounds", 0, lambda row: row["sheets"][0].pop(), "do not match the questionnaire's id"),
    ("rounds", 0, lambda row: row["candidates"]["caption_id"].pop(), r"rounds\.jsonl, line 1"),
    ("rounds", 0, lambda row: row.pop("known"), "KeyError"),
    ("answers", 0, lambda row: row.update(sheet=9), "sheet 9 of 'ann', expected answers to one of the 4 sheets"),
    ("answers", 0, lambda row: row["answers"][0].update(pair_id="p0"), "a question of its sheet"),
    ("answers", 0, lambda row: row["answers"][0].update(answer="maybe"), "answer 'maybe'"),
    ("answers", 0, lambda row: row["answers"][0].update(seconds=-1), "seconds: found -1"),
    ("answers", 0, lambda row: row["answers"][0].pop("seconds"), "a key 'seconds'"),
]
REWRITTEN = [
    ("rounds", None, lambda text: text.replace('"eccv"', '"later"'), r"rounds\.jsonl, line 1.*KeyError\('later'\)"),
    ("rounds", None, lambda text: text.splitlines()[1] + "\n", "line 1: found round 2.*expected round 1"),
    ("answers", None, lambda text: "{\n" + text, r"answers\.jsonl, line 1.*valid JSON"),
    ("answers", None, lambda text: "{}\n" + text, r"answers\.jsonl, line 1.*a key 'sheet'"),
    ("answers", None, lambda text: "[]\n" + text, "line 1: found .*expected an object"),
    ("answers", None, lambda text: text.replace("ann", "\xe9"), "UTF-8"),
]


@pytest.mark.parametrize(("name", "line", "change", "message"), [*EDITED, *REWRITTEN])
def test_damage_is_refused_with_its_place(name, line, change, message, copy, sample_library):
    folder = copy("answered")
    path = folder / f"{name}.jsonl"
    if line is None:
        path.write_text(change(path.read_text()), encoding="latin-1")
    else:
        edit_line(path, line, change)
    with pytest.raises(MalformedSource, match=message) as raised:
        Project.open(folder, sample_library)
    assert str(folder) in str(raised.value)


@pytest.mark.parametrize("name", ["rounds.jsonl", "answers.jsonl"])
def test_torn_last_line_is_dropped_and_then_replaced(name, copy, sample_library, tmp_path):
    folder = copy("answered")
    content = (folder / name).read_bytes()
    *whole, last = content.splitlines(keepends=True)
    for size in (1, len(last) // 2, len(last) - 2):
        (folder / name).write_bytes(b"".join(whole) + last[:size])
        project = Project.open(folder, sample_library)
        assert (len(project.rounds), len(project.responses)) == ((1, 28) if name == "rounds.jsonl" else (2, 21))
    (folder / name).write_bytes(content[:-1])  # as an editor may, which ends the last line without a line feed
    assert len(Project.open(folder, sample_library).rounds) == 2
    assert len(Project.open(folder, sample_library).responses) == 28
    (folder / name).write_bytes(b"".join(whole) + last[:-2])
    project = Project.open(folder, sample_library)
    if name == "answers.jsonl":
        project.add_answers([write_answers(tmp_path / "ben.jsonl", project, "ben", knows(project), number=1)])
    else:
        project.propose({"other": noisy_run(sample_library, 7)}, ProposalOptions(budget=7), size=5)
    assert (folder / name).read_bytes().count(b"\n") == content.count(b"\n")
    assert json.loads((folder / name).read_bytes().splitlines()[-1])
    assert len(Project.open(folder, sample_library).responses) == 28


def open_damaged(folder, library, name, content):
    """The project with one file damaged; None where that is refused."""
    (folder / name).write_bytes(content)
    try:
        return Project.open(folder, library)
    except (DataError, UnknownName, SourceMissing):
        return None


@pytest.mark.parametrize("name", ["rounds.jsonl", "answers.jsonl"])
def test_cut_or_flipped_file_invents_no_answer(copy, sample_library, name):
    folder = copy("answered")
    random = np.random.default_rng(0)
    whole = Project.open(folder, sample_library)
    content = (folder / name).read_bytes()
    assert open_damaged(folder, sample_library, name, content).responses == whole.responses
    for place in random.integers(len(content), size=40).tolist():
        project = open_damaged(folder, sample_library, name, content[:place])
        assert project is None or all(row in whole.responses for row in project.responses)
        flipped = bytes([content[place] ^ (1 << place % 8)])
        project = open_damaged(folder, sample_library, name, content[:place] + flipped + content[place + 1 :])
        asked = [{own.pair_id for own in sheet} for sheet in ([] if project is None else project.questions)]
        assert project is None or all(response.pair_id in asked[response.sheet] for response in project.responses)


def test_line_ends_of_version_control_are_no_damage(copy, sample_library):
    folder = copy("answered")
    for path in folder.glob("*.jsonl"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert len(Project.open(folder, sample_library).rounds) == 2


def test_other_data_is_refused_with_both_editions(copy, sample_library):
    folder = copy()
    other = {"content": "0" * 64, "edition": "official"}
    edit_line(folder / "rounds.jsonl", 0, lambda row: row["project"]["data"].update(other))
    with pytest.raises(DataError, match=r"edition official, with 60 images.*this data is another: edition sample"):
        Project.open(folder, sample_library)


@pytest.mark.parametrize("name", ["", "none", "file"])
def test_folder_without_rounds_is_no_project(sample_library, tmp_path, name):
    (tmp_path / "file").write_text("x")
    with pytest.raises(SourceMissing, match=r"no round in rounds\.jsonl; cxc-eccv annotate propose makes"):
        Project.open(tmp_path / name, sample_library)


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_project_is_not_made_in_a_file(sample_library, tmp_path, name):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        Project.create(tmp_path / name, sample_library, name="ours")


@pytest.mark.parametrize("left", ["answers.jsonl", "labels.parquet"])
def test_new_project_never_overwrites_existing_files(left, copy, sample_library):
    folder = copy("answered")
    with pytest.raises(InvalidOption, match="is an annotation project already"):
        Project.create(folder, sample_library, name="ours")
    merge_labels(Project.open(folder, sample_library))
    for name in {"rounds.jsonl", "answers.jsonl", "labels.parquet"} - {left}:
        (folder / name).unlink()
    with pytest.raises(InvalidOption, match=rf"has {left} but not the rounds\.jsonl that it belongs to"):
        Project.create(folder, sample_library, name="ours")


def state(folder):
    """What a project holds, without its card and hidden files, such as a lock that nobody holds any more."""
    return {
        name: content
        for name, content in content_of(folder).items()
        if name != "README.md" and not any(part.startswith(".") for part in Path(name).parts)
    }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process must be forked")
@pytest.mark.parametrize("step", ["propose", "import", "merge"])
def test_killed_step_is_undone_and_repeatable(step, copy, sample_library, tmp_path):
    folder = tmp_path / "none"
    files = save_runs(tmp_path, sample_library, seeds=(0,))
    if step != "propose":
        folder = copy("proposed" if step == "import" else "answered")
        project = Project.open(folder, sample_library)
        files = [write_answers(tmp_path / "cleo.jsonl", project, "cleo", knows(project), number=1)]
    if step == "merge":
        merge_labels(project, Terms(version="0.0.9"))
        project.decide(Decision({(0, "ann"): False}))
    worker = Path(__file__).with_name("killed_steps.py")
    work = tmp_path / "work"
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    command = [sys.executable, str(worker), str(folder), step, str(work), *map(str, files)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"})
    *killed, whole = json.loads((work / "found.json").read_text())
    assert whole == {"status": 0, "again": 0}
    assert killed
    before = state(folder)
    after = state(work / str(len(killed)) / "left")
    assert after not in ({}, before)
    for place, outcome in enumerate(killed):
        assert outcome == {"status": signal.SIGKILL, "again": 0}
        assert state(work / str(place) / "left") in (before, after), place
        assert state(work / str(place) / "project") == state(work / str(len(killed)) / "project"), place
        assert not list((work / str(place)).rglob("project/**/*.building")), place


def test_full_disk_names_the_file_and_keeps_answers(proposed, sample_library, tmp_path):
    folder = Path(shutil.copytree(proposed, tmp_path / "project"))
    project = Project.open(folder, sample_library)
    files = [write_answers(tmp_path / f"{name}.jsonl", project, name, knows(project)) for name in ("ann", "ben")]
    before = project.add_answers(files[:1]).project.responses
    size = (folder / "answers.jsonl").stat().st_size
    with files_of_at_most(size + 100), pytest.raises(OSError, match=rf"File too large: '{folder / 'answers.jsonl'}'"):
        project.add_answers(files[1:])
    assert list(Project.open(folder, sample_library).responses) == list(before)
    assert project.add_answers(files[1:]).added == len(before)
