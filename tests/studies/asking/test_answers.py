"""Answers as every tool exports them, read back whole: what is unfinished, corrected, or said by the same person; and
refused with place and remedy for every kind of damage."""

import csv
import io
import json

import pytest
from asked_samples import QUESTION, records_of, sample_sheets

from cxc_eccv.errors import InvalidOption, MalformedSource, UnknownName
from cxc_eccv.studies.asking.answer_files import ANSWER_SCHEMA, Unfinished
from cxc_eccv.studies.asking.answer_files import read_answers as read_all
from cxc_eccv.studies.asking.formats import formats
from cxc_eccv.studies.asking.questions import Questionnaire
from cxc_eccv.studies.asking.schemes import schemes

ECCV = schemes()["eccv"]
SAID = {
    "eccv": [
        ("yes", {}),
        ("no", {}),
        ("partially_yes", {"shortcomings": ["grammar"]}),
        ("mostly_no", {"shortcomings": ["not_in_image", "wrong_description"], "errors": ["color", "age"]}),
    ],
    "cxc": [(number, {}) for number in (0, 3, 5, 2)],
    "entailment": [({"describes": one, "follows": other}, {}) for one in (True, False) for other in (True, False)],
}
NAMES = {"eccv": ("answer", "shortcomings", "errors"), "cxc": ("answer",), "entailment": ("describes", "follows")}
YES_NO = {True: "yes", False: "no"}
NOTHING = {"answer": None, "details": {}, "remark": "", "seconds": None}


@pytest.fixture(scope="module")
def sheets(sample_library):
    return sample_sheets(sample_library)


@pytest.fixture(scope="module")
def asked(sample_library):
    """Two rounds of two sheets each; the second asks for no reasons."""
    rounds = enumerate((ECCV, ECCV.without_reasons()))
    return [Questionnaire(scheme, sample_sheets(sample_library, start=place), 2 * place) for place, scheme in rounds]


def read_answers(paths, sheets, scheme, form=None):
    return read_all(paths, [Questionnaire(scheme, sheets)], form).answers


def answer(sheets, scheme, worker="w1"):
    """The records of a worker who answers everything, with a remark about the second question."""
    records = records_of(Questionnaire(scheme, sheets), worker, SAID[scheme.name])
    records[1]["remark"] = "=1+1"
    return records


def parts(record):
    """Each control with what was said, as a tool has it: choices by name."""
    said = record["answer"] if isinstance(record["answer"], dict) else {"answer": record["answer"]}
    said = {name: YES_NO.get(value, value) if isinstance(value, bool) else value for name, value in said.items()}
    remark = {"remark": record["remark"]} if record["remark"] else {}
    return {name: value for name, value in (said | record["details"] | remark).items() if value is not None}


def write_lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def write_table(records):
    kinds = {type(record["answer"]) for record in records}
    scheme = "cxc" if int in kinds else "entailment" if dict in kinds else "eccv"
    table = io.StringIO()
    writer = csv.DictWriter(table, [*QUESTION, "worker", *NAMES[scheme], "remark", "seconds"])
    writer.writeheader()
    for record in records:
        said = {name: ";".join(value) if isinstance(value, list) else value for name, value in parts(record).items()}
        writer.writerow({name: record[name] for name in (*QUESTION, "worker", "seconds")} | said)
    return table.getvalue()


def write_tasks(records):
    """Label Studio's JSON: people's annotations beneath a task, and skipped ones."""
    tasks = {}
    for number, record in enumerate(records):
        data = {name: record[name] for name in QUESTION} | {"image": "https://example.org/1.jpg"}
        skipped = {"id": 1, "completed_by": 99, "result": [], "was_cancelled": True, "lead_time": 1}
        task = {"id": 100 + number, "data": data, "annotations": [skipped]}
        task = tasks.setdefault((record["sheet"], record["pair_id"], record["caption"]), task)
        results = []
        for name, said in parts(record).items():
            kind = "text" if name == "remark" else "number" if isinstance(said, int) else "choices"
            results.append({"from_name": name, "value": {kind: [said] if isinstance(said, str) else said}})
        done = {"id": 200 + number, "completed_by": record["worker"], "result": results}
        task["annotations"].append(done | {"was_cancelled": False, "lead_time": record["seconds"]})
    return json.dumps(list(tasks.values()))


def write_results(records):
    """MTurk's results: an assignment per worker, and one that was rejected."""
    assignments = {}
    for record in records:
        assignments.setdefault(record["worker"], []).append(record)
    rejected = [[record | {"worker": "bad", "answer": "no such answer"} for record in records[:2]]]
    table = io.StringIO()
    names = ["HITId", "WorkerId", "AssignmentStatus", "Input.sheet", "Input.questions", "Answer.answers"]
    writer = csv.DictWriter(table, [*names, "Approve", "Reject"], quoting=csv.QUOTE_ALL)
    writer.writeheader()
    for answers in [*assignments.values(), *rejected]:
        worker = answers[0]["worker"]
        status = {"bad": "Rejected", "w1": "Approved"}.get(worker, "Submitted")
        row = ["h", worker, status, answers[0]["sheet"], "e30=", json.dumps(answers)]
        csv.writer(table, quoting=csv.QUOTE_ALL).writerow(row)  # without the last two cells, as MTurk has it
    return table.getvalue()


WRITTEN = {
    "html": ("html", "a.jsonl", write_lines),
    "jsonl": ("jsonl", "a.jsonl", write_lines),
    "csv": ("csv", "a.csv", write_table),
    "label_studio": ("label_studio", "a.json", write_tasks),
    "mturk": ("mturk", "a.csv", write_results),
}
EVERY = pytest.mark.parametrize(("format_name", "file_name", "write"), WRITTEN.values(), ids=WRITTEN)


def save(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@EVERY
@pytest.mark.parametrize("name", SAID)
def test_every_export_format_is_read_alike(sheets, tmp_path, name, format_name, file_name, write):
    """By two people in one file; equal answers are equal texts, whichever tool they come from."""
    scheme = schemes()[name]
    records = [*answer(sheets, scheme, "w2"), *answer(sheets, scheme, "w1")]
    table = read_answers([save(tmp_path / file_name, write(records))], sheets, scheme, format_name)
    assert list(table) == ANSWER_SCHEMA.names
    expected = sorted(records, key=lambda record: (record["sheet"], record["worker"]))
    for column in ("pair_id", "worker", "remark"):
        assert table[column].tolist() == [record[column] for record in expected]
    said = [float(record["answer"]) if name == "cxc" else record["answer"] for record in expected]
    assert table["answer"].tolist() == [json.dumps(one, sort_keys=True) for one in said]
    assert table["details"].tolist() == [json.dumps(record["details"], sort_keys=True) for record in expected]
    assert set(table["seconds"]) == {4.5}
    timeless = write([record | {"seconds": None} for record in records])
    table = read_answers([save(tmp_path / file_name, timeless)], sheets, scheme, format_name)
    assert table["seconds"].isna().all()


CHANGES = {
    "unknown pair": ({"pair_id": "p" + "0" * 16}, "pair_id 'p0000000000000000' of sheet 0.*remove the line"),
    "unknown sheet": ({"sheet": 7}, "of sheet 7"),
    "changed text": ({"caption": "Something else."}, "caption.*as exported; undo the change"),
    "changed image": ({"image_id": 1}, "image_id.*as exported"),
    "another edition": ({"questionnaire": "q" + "f" * 12}, "questionnaire.*other questions or another edition"),
    "no such answer": ({"answer": "maybe", "details": {}}, "'maybe'.*give one of yes, partially_yes"),
    "no reason": ({"answer": "mostly_no", "details": {}}, "shortcomings: none; tick one or more"),
    "no such reason": ({"answer": "mostly_no", "details": {"shortcomings": ["ugly"]}}, "'ugly'"),
    "a remark alone": ({"answer": None, "details": {}, "remark": "unclear"}, "answer None: give one of"),
    "no name": ({"worker": ""}, "worker.*"),
    "a name of controls": ({"worker": "a\x1b[2J"}, "worker"),
    "negative time": ({"seconds": -1}, "seconds.*found -1"),
    "no number of seconds": ({"seconds": float("nan")}, "seconds|finite numbers"),
    "endless time": ({"seconds": float("inf")}, "seconds|finite numbers"),
    "above the scale": ({"answer": 6}, "a number from 0 to 5", "cxc"),
    "below the scale": ({"answer": -1}, "a number from 0 to 5", "cxc"),
    "half the criteria": ({"answer": {"describes": True}}, "answer describes and follows", "entailment"),
}


OTHER_FORMATS = ("csv", "label_studio", "mturk")
REFUSED = [*(("jsonl", change) for change in CHANGES), *((name, "no such answer") for name in OTHER_FORMATS)]


@pytest.mark.parametrize(("form", "change"), REFUSED)
def test_what_was_not_asked_is_refused(sheets, tmp_path, form, change):
    format_name, file_name, write = WRITTEN[form]
    changes, message, *name = CHANGES[change]
    scheme = schemes()["".join(name) or "eccv"]
    records = answer(sheets, scheme)
    records[2] |= changes
    place = r"(line 4|line 3|row 3|\[2\])" if "finite" not in message else ""
    with pytest.raises(MalformedSource, match=rf"{file_name}.*{place}.*({message})"):
        read_answers([save(tmp_path / file_name, write(records))], sheets, scheme, format_name)


BAD = {
    "a sheet by truth": ({"sheet": False}, "of sheet False"),
    "a reason for yes": ({"details": {"shortcomings": ["grammar"]}}, "does not ask for them"),
    "errors unasked": (
        {"answer": "mostly_no", "details": {"shortcomings": ["grammar"], "errors": ["color"]}},
        "does not ask for them",
    ),
    "ticks without their group": ({"answer": "mostly_no", "details": ["grammar"]}, "the ticks of each group as a list"),
    "a worker of two lines": ({"worker": "a\nb"}, "worker"),
    "a worker that is a list": (NOTHING | {"worker": []}, "worker"),
    "a remark by number": ({"remark": 3}, "remark"),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_what_only_lines_can_say_wrongly_is_refused(asked, tmp_path, changes, message):
    rows = records_of(asked[0])
    rows[2] |= changes
    with pytest.raises(MalformedSource, match=rf"a\.jsonl.*line 3.*({message})"):
        read_all([save(tmp_path / "a.jsonl", write_lines(rows))], asked)


@EVERY
def test_missing_answers_second_ones_and_none_at_all(sheets, tmp_path, format_name, file_name, write):
    records = answer(sheets, ECCV)

    def read(rows):
        return read_all([save(tmp_path / file_name, write(rows))], [Questionnaire(ECCV, sheets)], format_name)

    again = records[0] | {"answer": "no", "details": {}}
    with pytest.raises(MalformedSource, match=rf"an answer of 'w1' about {again['pair_id']}.*remove one"):
        read([*records, again])
    assert len(read([*records, records[0]]).answers) == len(records)
    with pytest.raises(MalformedSource, match=rf"{file_name}: found no answers"):
        read([record | NOTHING for record in records])
    first = len(sheets[0])
    for some in (records[1:], [records[0] | NOTHING, *records[1:]]):
        found = read(some)
        by_sheet = formats()[format_name].by_sheet
        assert len(found.answers) == len(records) - (first if by_sheet else 1)
        assert found.unfinished == ((Unfinished(0, "w1", first - 1, first),) if by_sheet else ())


DAMAGES = {
    "cut": lambda content: content[: -len(content) // 3],
    "latin": lambda content: content[:100] + b"\xe9" + content[100:],
    "empty": lambda content: b"",
    "nothing": lambda content: b"[]",
    "another": lambda content: b'{"a": 1}\n',
}
DAMAGED = [*(("jsonl", damage) for damage in DAMAGES), *((name, "another") for name in OTHER_FORMATS), ("mturk", "cut")]


@pytest.mark.parametrize(("form", "damage"), DAMAGED)
def test_damaged_file_is_refused(sheets, tmp_path, form, damage):
    format_name, file_name, write = WRITTEN[form]
    content = DAMAGES[damage](write(answer(sheets, ECCV)).encode())
    with pytest.raises(MalformedSource, match=rf"{file_name}.*found .*expected "):
        read_answers([save(tmp_path / file_name, content)], sheets, ECCV, format_name)


def test_formats_are_told_by_name_and_suffix(sheets, tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'label_studio'"):
        read_answers([tmp_path / "a"], sheets, ECCV, "label-studio")
    for ending, format_name, message in (
        ("csv", "html", r"html are files that end in \.jsonl; if .* give --format csv or mturk$"),
        ("jsonl", "csv", "give --format html or jsonl$"),
        ("JSON", "csv", "give --format label_studio$"),
    ):
        with pytest.raises(InvalidOption, match=message):
            read_answers([tmp_path / f"a.{ending}"], sheets, ECCV, format_name)
    path = save(tmp_path / "a.ndjson", write_lines(answer(sheets, ECCV)))
    assert len(read_answers([path], sheets, ECCV, "jsonl"))
    with pytest.raises(InvalidOption, match="the suffix tells no format"):
        read_answers([path], sheets, ECCV)
    assert {format_name for format_name, _, _ in WRITTEN.values()} == set(formats())


def test_answers_of_files_and_rounds_form_one_table(asked, tmp_path):
    """A worker is the same in any case of the name."""
    rows = {worker: [row for own in asked for row in records_of(own, worker)] for worker in ("w2", "w1")}
    for row, name in zip(rows["w1"], ["W1", " w1 "] * 3, strict=False):  # one person, in any case
        row["worker"] = name
    files = [save(tmp_path / f"{worker}.jsonl", write_lines(own[::-1])) for worker, own in rows.items()]
    found = read_all(files, asked)
    assert (list(found.answers), found.unfinished) == (ANSWER_SCHEMA.names, ())
    order = [(sheet, worker) for sheet in range(4) for worker in ("w1", "w2")]
    expected = [(*key, own.pair_id) for key in order for own in [*asked[0].sheets, *asked[1].sheets][key[0]]]
    columns = found.answers[["sheet", "worker", "pair_id"]]
    assert list(columns.itertuples(index=False, name=None)) == expected
    assert found.responses[0].origin == f"w1.jsonl, line {len(rows['w1'])}"


def test_only_finished_sheets_are_imported(asked, tmp_path):
    """Unfinished sheets are reported."""
    rows = records_of(asked[0])

    def read(*parts, **options):
        files = [save(tmp_path / f"{place}.jsonl", write_lines(part)) for place, part in enumerate(parts)]
        found = read_all(files, asked, **options)
        return found.answers["sheet"].tolist(), found.unfinished

    assert read(rows[:7]) == ([0] * 5, (Unfinished(1, "w1", 2, 4),))
    assert read(rows[:2]) == ([], (Unfinished(0, "w1", 2, 5),))
    assert read(rows[::2], rows[1::2]) == ([0] * 5 + [1] * 4, ())
    known = read_all([save(tmp_path / "known.jsonl", write_lines(rows[:5]))], asked).responses
    assert read(rows[:1], earlier=known) == ([0], ())


def test_last_answer_counts_with_replace(asked, tmp_path):
    """Without it, a second answer is refused with both places."""
    rows = records_of(asked[0])
    first = save(tmp_path / "a.jsonl", write_lines(rows))
    rows[2]["answer"] = "no"
    second = save(tmp_path / "b.jsonl", write_lines(rows))
    with pytest.raises(MalformedSource, match=r"b\.jsonl, line 3.*an answer of 'w1'.*a\.jsonl, line 3.*--replace"):
        read_all([first, second], asked)
    found = read_all([first, second], asked, replace=True).answers
    assert found["answer"].tolist()[2] == '"no"'


def test_a_round_without_reasons_takes_none(asked, tmp_path):
    rows = records_of(asked[1], said=[("mostly_no", {})])
    assert len(read_all([save(tmp_path / "a.jsonl", write_lines(rows))], asked).answers) == len(rows)
    rows[1]["details"] = {"shortcomings": ["grammar"]}
    with pytest.raises(MalformedSource, match="does not ask for them"):
        read_all([save(tmp_path / "a.jsonl", write_lines(rows))], asked)


def annotate(tasks, account, name=None):
    """The tasks as an account of Label Studio answered them, with the name of a person in their data or without."""
    person = {} if name is None else {"worker": name}
    return [
        task | {"data": task["data"] | person, "annotations": [task["annotations"][1] | {"completed_by": account}]}
        for task in tasks
    ]


class TestLabelStudio:
    def read(self, sheets, path, tasks):
        return read_answers([save(path / "a.json", json.dumps(tasks))], sheets, schemes()["eccv"], "label_studio")

    @pytest.fixture
    def tasks(self, sheets):
        return json.loads(write_tasks(answer(sheets, schemes()["eccv"])))

    def test_people_are_numbers_or_addresses(self, sheets, tmp_path, tasks):
        for task in tasks:
            task["annotations"][1]["completed_by"] = 3
        assert set(self.read(sheets, tmp_path, tasks)["worker"]) == {"3"}
        for task in tasks:
            task["annotations"][1]["completed_by"] = {"id": 3, "email": "a@example.org", "first_name": ""}
        assert set(self.read(sheets, tmp_path, tasks)["worker"]) == {"a@example.org"}

    @pytest.mark.parametrize("account", [3, {"id": 3}, {"id": 3, "email": ""}])
    def test_account_without_address_counts_by_number(self, sheets, tmp_path, tasks, account):
        write = save(tmp_path / "a.json", json.dumps(annotate(tasks, account)))
        assert set(read_answers([write], sheets, ECCV)["worker"]) == {"3"}

    @pytest.mark.parametrize("second", ["no", "yes"])
    def test_installations_with_equal_numbers_stay_apart(self, sheets, tmp_path, tasks, second):
        """By names in the tasks, or by ``workers``; without either they are refused, whatever they answered."""
        asked = [Questionnaire(ECCV, sheets)]
        names = ["Ann", "ben"]
        (tmp_path / "other").mkdir()
        places = [tmp_path / "export.json", tmp_path / "other" / "export.json"]

        def write(of_person):
            other = json.loads(json.dumps(tasks))
            other[0]["annotations"][1]["result"] = [{"from_name": "answer", "value": {"choices": [second]}}]
            for place, rows, name in zip(places, (tasks, other), names, strict=True):
                save(place, json.dumps(annotate(rows, 1, name if of_person else None)))
            return places

        with pytest.raises(MalformedSource, match=r"other/export\.json, \[0\].* account 1.*--worker"):
            read_all(write(False), asked, replace=True)
        by_option = read_all(write(False), asked, workers=names).answers
        assert set(by_option["worker"]) == {"ann", "ben"}
        assert len(by_option) == 2 * sum(map(len, sheets))
        assert read_all(write(True), asked).answers.equals(by_option)
        assert len(read_all([places[0]] * 2, asked, workers=["ann", "ann"]).answers) == sum(map(len, sheets))

    def test_number_of_earlier_import_needs_name(self, sheets, tmp_path, tasks):
        asked = [Questionnaire(ECCV, sheets)]
        first = save(tmp_path / "first.json", json.dumps(annotate(tasks, 1)))
        second = save(tmp_path / "second.json", json.dumps(annotate(tasks, 1)))
        earlier = read_all([first], asked).responses
        assert read_all([first], asked, earlier=earlier).responses == earlier
        with pytest.raises(MalformedSource, match=r"second\.json.*one of the same number in first\.json, \["):
            read_all([second], asked, earlier=earlier)
        assert set(read_all([second], asked, earlier=earlier, workers=["1"]).answers["worker"]) == {"1"}

    @pytest.mark.parametrize(
        ("accounts", "names", "message"),
        [
            ((1, 1), ("ann", "ben"), "account 1 to the questions of 'ann' and 'ben'.*a project for each person"),
            ((1, 2), ("ann", "ann"), "accounts 1 and 2 as those of 'ann'"),
            ((1, "b@example.org"), ("ann", "Ann "), "accounts 1 and b@example.org as those of 'ann'"),
        ],
    )
    def test_shared_project_of_named_tasks_is_refused(self, sheets, tmp_path, tasks, accounts, names, message):
        half = len(tasks) // 2
        parts = zip((tasks[:half], tasks[half:]), accounts, names, strict=True)
        rows = [task for part, account, name in parts for task in annotate(part, account, name)]
        with pytest.raises(MalformedSource, match=message):
            self.read(sheets, tmp_path, rows)

    def test_option_contradicting_names_is_refused(self, sheets, tmp_path, tasks):
        path = save(tmp_path / "a.json", json.dumps(annotate(tasks, 1, "ann")))
        lines = save(tmp_path / "a.jsonl", write_lines(answer(sheets, ECCV, "ann")))
        asked = [Questionnaire(ECCV, sheets)]
        for file in (path, lines):
            assert set(read_all([file], asked, workers=["Ann"]).answers["worker"]) == {"ann"}
            with pytest.raises(MalformedSource, match="worker: found 'ann', expected answers of 'ben' alone"):
                read_all([file], asked, workers=["ben"])
        with pytest.raises(InvalidOption, match="--worker names 1 people for 2 files"):
            read_all([path, lines], asked, workers=["ann"])

    def test_another_export_names_the_right_one(self, sheets, tmp_path, tasks):
        short = [{**task["data"], "id": 1, "annotator": 7, "annotation_id": 1, "answer": "no"} for task in tasks]
        with pytest.raises(
            MalformedSource, match=r"\[0\], task 1: found a task as JSON_MIN.*the project's export as JSON"
        ):
            self.read(sheets, tmp_path, short)
        text = [task | {"data": {name: str(value) for name, value in task["data"].items()}} for task in tasks]
        with pytest.raises(MalformedSource, match=r"sheet: found the text '0'.*into which tasks\.json was imported"):
            self.read(sheets, tmp_path, text)
        table = io.StringIO()
        writer = csv.DictWriter(table, sorted(short[0]))
        writer.writeheader()
        writer.writerows(short)
        path = save(tmp_path / "a.csv", table.getvalue())
        with pytest.raises(
            MalformedSource, match=r"Label Studio's export as CSV, expected its export in the format JSON"
        ):
            read_answers([path], sheets, ECCV, "csv")

    def test_a_skipped_question_is_no_answer(self, sheets, tmp_path, tasks):
        tasks[0]["annotations"][1]["was_cancelled"] = True
        read = self.read(sheets, tmp_path, tasks)["pair_id"].tolist()
        assert read == [question.pair_id for sheet in sheets for question in sheet][1:]

    def test_ticks_that_were_hidden_again_are_left_out(self, sheets, tmp_path, tasks):
        tasks[0]["annotations"][1]["result"].append({"from_name": "errors", "value": {"choices": ["age"]}})
        assert self.read(sheets, tmp_path, tasks)["details"].tolist()[0] == "{}"

    def test_malformed_label_studio_annotations_are_refused(self, sheets, tmp_path, tasks):
        first = tasks[0]["annotations"][1]
        for result, message in (
            ([], r"\[0\], task 100, annotation 200.*answer None"),
            ([{"from_name": "sentiment", "value": {"choices": ["yes"]}}], "'sentiment'.*the exported configuration"),
            ([{"from_name": "answer", "value": {"choices": ["yes", "no"]}}], "give one of"),
            ([{"from_name": "answer", "value": {"choices": ["100% YES"]}}], "'100% YES'.*give one of"),
            ([{"value": {}}], "from_name"),
            ("yes", "the project's export"),
        ):
            first["result"] = result
            with pytest.raises(MalformedSource, match=message):
                self.read(sheets, tmp_path, tasks)

    def test_label_studio_tasks_without_annotations_are_refused(self, sheets, tmp_path):
        renamed = write_tasks(answer(sheets, schemes()["eccv"])).replace('"annotations"', '"completions"')
        for tasks, message in (
            ([{"id": 1, "data": {}}], r"\[0\].*'annotations'.*the project's export"),
            ([{"answer": "yes"}], r"\[0\].*'id'"),
            (json.loads(renamed), "annotations"),
        ):
            with pytest.raises(MalformedSource, match=message):
                self.read(sheets, tmp_path, tasks)


class TestMTurk:
    @pytest.fixture
    def assignments(self, sheets):
        """Rows of a batch: two workers who answered everything."""
        return [self.make_row(answer(sheets, ECCV, worker)) for worker in ("w1", "w2")]

    def make_row(self, answers, **changes):
        row = {"WorkerId": answers[0]["worker"], "AssignmentStatus": "Submitted", "Input.questions": "e30="}
        return row | {"Answer.answers": json.dumps(answers), "Approve": "", "Reject": ""} | changes

    def read(self, sheets, path, rows, change=lambda text: text, **options):
        table = io.StringIO()
        writer = csv.DictWriter(table, rows[0], quoting=csv.QUOTE_ALL, **options)
        writer.writeheader()
        writer.writerows(rows)
        return read_answers([save(path / "a.csv", change(table.getvalue()))], sheets, ECCV, "mturk")

    @pytest.mark.parametrize(
        ("status", "approve", "reject", "counts"),
        [
            ("Submitted", "", "all answers the same", False),
            ("Submitted", "x", "", True),
            ("Approved", "", "too fast", False),
            ("Approved", "", "", True),
            ("Rejected", "", "", False),
            ("Rejected", "x", "", True),
        ],
    )
    def test_review_in_the_table_decides(self, sheets, tmp_path, assignments, status, approve, reject, counts):
        assignments[0] |= {"AssignmentStatus": status, "Approve": approve, "Reject": reject}
        expected = {"w1", "w2"} if counts else {"w2"}
        assert set(self.read(sheets, tmp_path, assignments)["worker"]) == expected

    @pytest.mark.parametrize("empty", ["", " ", "{}", "[]"])
    def test_assignment_without_answer_is_left_out(self, sheets, tmp_path, assignments, empty):
        assignments[0]["Answer.answers"] = empty
        with pytest.warns(UserWarning, match=r"a\.csv, row 2: the assignment of w1 has no answer"):
            assert set(self.read(sheets, tmp_path, assignments)["worker"]) == {"w2"}

    @pytest.mark.parametrize(
        ("change", "options"),
        [
            (lambda text: text, {"lineterminator": "\r"}),
            (lambda text: text, {"delimiter": ";"}),
            (lambda text: text.replace("\n", "\r\n", 1), {}),
            (lambda text: "\ufeff" + text, {"lineterminator": "\n"}),
        ],
    )
    def test_table_of_a_spreadsheet_reads_alike(self, sheets, tmp_path, assignments, change, options):
        plain = self.read(sheets, tmp_path, assignments)
        assert self.read(sheets, tmp_path, assignments, change, **options).equals(plain)

    def test_cell_above_the_limit_of_csv_is_read(self, sheets, tmp_path):
        records = answer(sheets, ECCV)
        records[0]["remark"] = "x" * (csv.field_size_limit() + 1)
        assert self.read(sheets, tmp_path, [self.make_row(records)])["remark"][0] == records[0]["remark"]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"AssignmentStatus": "x"}, "row 2, AssignmentStatus: found 'x'"),
            ({"Approve": "x", "Reject": "no"}, "row 2: found both Approve and Reject"),
            ({"Answer.answers": '[{"answer": "no"'}, "found no JSON"),
            ({"Answer.answers": "3"}, "row 2: found 3, expected a list of answers"),
        ],
    )
    def test_row_that_says_nothing_certain_is_refused(self, sheets, tmp_path, assignments, changes, message):
        assignments[0] |= changes
        with pytest.raises(MalformedSource, match=message):
            self.read(sheets, tmp_path, assignments)

    def test_damaged_table_is_refused(self, sheets, tmp_path, assignments):
        for change, message in (
            (lambda text: text[:-3], "EOF inside string"),
            (lambda text: text.replace('"Approve"', '"WorkerId"'), "a column 'WorkerId'"),
            (lambda text: text.replace('"e30="', '"e30=","more"', 1), "Expected 6 fields in line 2, saw 7"),
        ):
            with pytest.raises(MalformedSource, match=message):
                self.read(sheets, tmp_path, assignments, change)


class TestCsv:
    def read(self, sheets, path, text, name="eccv"):
        return read_answers([save(path / "a.csv", text)], sheets, schemes()[name], "csv")

    def test_spreadsheet_bom_line_ends_and_blanks_are_accepted(self, sheets, tmp_path):
        text = write_table(answer(sheets, schemes()["eccv"]))
        text = text.replace("not_in_image;wrong_description", "not_in_image ; wrong_description ;")
        table = self.read(sheets, tmp_path, "\ufeff" + text.replace("\r\n", "\n").replace("\n", "\r\n"))
        assert json.loads(table["details"].tolist()[3])["shortcomings"] == ["not_in_image", "wrong_description"]

    @pytest.mark.parametrize("separator", [";", "\t"])
    @pytest.mark.parametrize("name", SAID)
    def test_other_separators_and_decimal_commas_are_accepted(self, sheets, tmp_path, name, separator):
        """As spreadsheets save a table where decimals have a comma, whatever stood in the file before."""
        text = write_table(answer(sheets, schemes()[name])).replace("w1,2,", "w1,2.5,")
        rows = list(csv.reader(io.StringIO(text)))
        saved = io.StringIO()
        writer = csv.writer(saved, delimiter=separator, quoting=csv.QUOTE_ALL)  # as LibreOffice can be told to
        writer.writerows([{"2.5": "2,5", "4.5": "4,5"}.get(cell, cell) for cell in row] for row in rows)
        assert "4,5" in saved.getvalue()
        assert self.read(sheets, tmp_path, saved.getvalue(), name).equals(self.read(sheets, tmp_path, text, name))
        with pytest.raises(MalformedSource, match=r"line 2, seconds: found '4,500\.5'"):
            self.read(sheets, tmp_path, saved.getvalue().replace("4,5", "4,500.5", 1), name)

    def test_spreadsheet_capitals_and_empty_rows_are_accepted(self, sheets, tmp_path):
        text = write_table(answer(sheets, schemes()["eccv"]))
        capital = text.replace(",yes,", ",Yes,").replace(",mostly_no,Not_", ",Mostly_no,Not_")
        capital = capital.replace(",mostly_no,not_in_image", ",Mostly_no,Not_in_image")
        assert capital.count("Mostly_no,Not") == text.count("mostly_no,not") > 0
        blank = "," * text.splitlines()[0].count(",") + "\r\n"
        assert self.read(sheets, tmp_path, capital + blank).equals(self.read(sheets, tmp_path, text))

    def test_decimal_comma_in_comma_separated_file_is_refused(self, sheets, tmp_path):
        """A time of day for seconds, a lost column and an unknown word are refused too."""
        text = write_table(answer(sheets, schemes()["cxc"]))
        point = self.read(sheets, tmp_path, text.replace(",w1,2,", ",w1,2.5,"), "cxc")
        assert 0.5 in point["gain"].tolist()
        with pytest.raises(MalformedSource, match=r"'2,5'.*a number from 0 to 5"):
            self.read(sheets, tmp_path, text.replace(",w1,2,", ',w1,"2,5",'), "cxc")
        with pytest.raises(MalformedSource, match=r"line 2, seconds: found '00:00:04'.*as 4\.5"):
            self.read(sheets, tmp_path, text.replace(",4.5", ",00:00:04", 1), "cxc")
        with pytest.raises(MalformedSource, match=r"line 1.*'seconds'"):
            self.read(sheets, tmp_path, text.replace("seconds", "time"), "cxc")
        text = write_table(answer(sheets, schemes()["entailment"]))
        with pytest.raises(MalformedSource, match=r"line 2, column describes.*'perhaps'.*yes or no"):
            self.read(sheets, tmp_path, text.replace("w1,yes", "w1,perhaps", 1), "entailment")
