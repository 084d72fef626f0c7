"""Submitting a report: the file it writes, the pull request it opens or updates, the leaderboard."""

import json

import pytest
import yaml
from hub_endpoints import READER
from hub_server import Fault
from official import BENCHMARK, FILES, MODEL, OPTIONS, SCORES, add_benchmark, add_model, edited, official_report

RANKED = {key: value for key, (value, _) in SCORES.items() if key != "cxc/i2t/median_rank"}
"""What the leaderboard has a task for: of a median rank, lower is better."""

PATH = ".eval_results/cxc_eccv.yaml"


@pytest.fixture
def benchmark(hub):
    return add_benchmark(hub)


@pytest.fixture
def model(hub, benchmark):
    return add_model(hub)


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(official_report())
    return path


def submit(client, report, *options, dataset=BENCHMARK, **expected):
    return client.command("submit", report, "--model", MODEL, "--dataset", dataset, *options, **expected)


def test_dry_run_shows_the_file_without_sending(hub, client, model, report):
    text = submit(client, report).out
    for line in (
        f"--- {PATH}",
        "    task_id: eccv_caption_i2t_map_at_r",
        "  value: 0.3125",
    ):
        assert f"{line}\n" in text
    assert "date" not in text
    assert f"would open a new pull request to model me/clip\nA token for {hub.url} was found. Nothing was sent." in text
    assert not hub.seen("^(POST|PUT)")
    assert not model.pull_requests


def test_pull_request_holds_results_in_hub_form(hub, client, model, benchmark, report):
    options = ("--notes", "zero-shot", "--source", "https://example.org/logs", "--date", "2025-12-31", "--yes")
    text = submit(client, report, *options).out
    assert f"pull request: {hub.url}/me/clip/discussions/1" in text
    (pull_request,) = model.pull_requests
    assert pull_request.title == "Add results on org/cxc_eccv"
    assert "fingerprint" in pull_request.description
    rows = yaml.safe_load(model.files("refs/pr/1")[PATH])
    assert {row["dataset"]["task_id"]: row["value"] for row in rows} == {
        key.replace("/", "_"): value for key, value in RANKED.items()
    }
    for row in rows:
        assert row["dataset"]["id"] == BENCHMARK
        assert row["dataset"]["revision"] == benchmark.main.oid
        assert row["date"] == "2025-12-31"
        assert row["source"] == {"url": "https://example.org/logs"}
        assert row["notes"] == "zero-shot; cxc_eccv 0.1.0, data 1.0.0"
    assert PATH not in model.files()  # proposed, not written
    assert model.files("refs/pr/1")["README.md"] == model.files()["README.md"]


def test_entry_names_the_training_data(hub, client, model, benchmark, report):
    content = json.loads(report.read_text())
    content["provenance"]["trained_on"] = ["coco_train", "laion2b"]
    report.write_text(json.dumps(content))
    assert "notes: trained on COCO train, laion2b; cxc_eccv 0.1.0" in " ".join(submit(client, report).out.split())


LATER = """
from unittest.mock import patch
from cxc_eccv.hub.submit import SubmitOptions, plan_submission
with patch("cxc_eccv.version.__version__", "0.2.0"):
    told = str(plan_submission(given, "me/clip", "org/cxc_eccv", SubmitOptions()))
"""


def test_entry_names_version_that_computed_report(hub, client, model, benchmark, report):
    """That is not always the version that submits it."""
    assert "notes: cxc_eccv 0.1.0, data 1.0.0" in client.code(LATER, str(report)).told


@pytest.mark.parametrize(("typed", "n_sent"), [("", 0), ("n\n", 0), ("y\n", 1)])
def test_numbers_in_doubt_are_sent_when_confirmed(client, model, report, typed, n_sent):
    content = json.loads(report.read_text())
    content["doubts"] = {"random_order": "Positives rank as in a random order."}
    report.write_text(json.dumps(content))
    answer = submit(client, report, "--yes", typed=typed, status=1 - n_sent)
    assert "Check this first:\n  - Positives rank as in a random order." in answer.out
    assert len(model.pull_requests) == n_sent


@pytest.mark.parametrize(
    ("facts", "shown", "asks"),
    [
        ({"model": "me/clip"}, "me/clip", False),
        ({"model": "CLIP"}, "CLIP", False),
        ({"run": {"file": "clip.npz"}}, "clip.npz", False),
        ({}, "not named", False),
        ({"model": "openai/clip"}, "openai/clip", True),
        ({"model": "clip.5"}, "clip.5", True),
        ({"run": {"file": "blip.npz"}}, "blip.npz", True),
        ({"model": "me/blip", "run": {"file": "clip.npz"}}, "me/blip", True),
    ],
)
def test_report_of_another_model_is_sent_when_confirmed(client, model, report, facts, shown, asks):
    report.write_text(edited(official_report(), lambda content: content["provenance"].update(facts)))
    assert f"model of the report: {shown}\nrepository: me/clip\n" in submit(client, report).out
    refused = submit(client, report, "--yes", status=int(asks))
    assert (f"The report is of {shown}, and the repository is me/clip. Submit" in refused.out) == asks
    assert len(model.pull_requests) == 1 - asks
    submit(client, report, "--yes", typed="y\n")
    assert len(model.pull_requests) == 1


def test_merged_results_are_not_proposed_again(hub, client, model, report):
    submit(client, report, "--yes")
    hub.store.merge(model, 1)
    assert "has these results already" in submit(client, report, "--yes").out
    assert len(model.pull_requests) == 1


def test_equal_values_are_not_proposed_again(hub, client, model, benchmark, report):
    given = ("--notes", "zero-shot", "--source", "https://example.org/logs", "--date", "2025-12-31")
    submit(client, report, *given, "--yes")
    hub.store.merge(model, 1)
    hub.store.write(benchmark, {"README.md": b"# A new card\n"})
    older = model.files()[PATH].replace(b"cxc_eccv 0.1.0", b"cxc_eccv 0.0.9")
    hub.store.write(model, {PATH: older})
    for options in ((), given):
        assert last(submit(client, report, *options, "--yes")) == "me/clip has these results already"
    assert len(model.pull_requests) == 1


def test_new_facts_of_an_equal_value_are_added(hub, client, model, report):
    tasks = ("--tasks", "cxc/t2t", "--yes")
    submit(client, report, *tasks, "--notes", "zero-shot")
    hub.store.merge(model, 1)
    submit(client, report, *tasks, "--source", "https://example.org/logs")
    (row,) = yaml.safe_load(model.files("refs/pr/2")[PATH])
    assert row["source"] == {"url": "https://example.org/logs"}
    assert row["notes"] == "zero-shot; cxc_eccv 0.1.0, data 1.0.0"


def test_results_of_other_tasks_are_kept(hub, client, benchmark, report):
    there = [
        {"dataset": {"id": "other/data", "task_id": "x"}, "value": 1, "verifyToken": "signed"},
        {"dataset": {"id": BENCHMARK, "task_id": "cxc_t2i_recall_at_1"}, "value": 0.5, "date": "2025-01-01"},
        {"dataset": {"id": BENCHMARK, "task_id": "eccv_caption_i2t_map_at_r"}, "value": 0.1},
    ]
    model = add_model(hub, **{PATH: yaml.safe_dump(there).encode()})
    submit(client, report, "--yes")
    rows = yaml.safe_load(model.files("refs/pr/1")[PATH])
    assert rows[:2] == there[:2]
    assert rows[2]["value"] == 0.3125


def test_metrics_without_a_benchmark_task_are_left_out(hub, client, report):
    add_benchmark(hub, main_alone=True)
    model = add_model(hub)
    report.write_text(official_report(SCORES | {"cxc/i2t/recall_at_20": (0.9, {"k": 20})}))
    shown = submit(client, report, "--yes").out
    assert (
        "left out, because org/cxc_eccv declares no task for it:\n"
        "  eccv_caption/i2t: r_precision, recall_at_1, recall_at_5\n"
        "  cxc/i2t: median_rank, recall_at_20\n"
    ) in shown
    assert proposed(model, 1) == {"eccv_caption_i2t_map_at_r": 0.3125, "cxc_t2t_recall_at_1": 0.25}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("cxc", {"cxc_t2t_recall_at_1"}),
        ("cxc/t2t,eccv_caption/i2t/map_at_r", {"cxc_t2t_recall_at_1", "eccv_caption_i2t_map_at_r"}),
        ("eccv_caption_i2t_map_at_r", {"eccv_caption_i2t_map_at_r"}),
    ],
)
def test_named_tasks_alone_are_submitted(client, model, report, names, expected):
    text = submit(client, report, "--tasks", names, "--yes").out
    assert set(proposed(model, 1)) == expected
    assert "left out" not in text


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (",", "--tasks is empty"),
        ("coco_5k", "has no result of coco_5k that org/cxc_eccv has a task for. Evaluate it too"),
        ("cxc/t2t,coco_5k/i2t", "has no result of coco_5k/i2t that"),
        ("eccv_caption/i2t/recall_at_5", "has no result of eccv_caption/i2t/recall_at_5 that"),
    ],
)
def test_tasks_that_nothing_can_be_submitted_of(hub, client, report, names, message):
    add_benchmark(hub, main_alone=True)
    model = add_model(hub)
    assert message in submit(client, report, "--tasks", names, "--yes", status=2).err
    assert not model.pull_requests


def proposed(model, number):
    """Task id to value in a pull request."""
    rows = yaml.safe_load(model.files(f"refs/pr/{number}")[PATH])
    return {row["dataset"]["task_id"]: row["value"] for row in rows}


def test_refused_report_is_not_looked_up(hub, client, model, report):
    hub.requests.clear()
    report.write_text(edited(official_report(), lambda content: content["provenance"]["data"].update(edition="sample")))
    assert "ReportRefused" in submit(client, report, "--yes", status=2).err
    assert not hub.requests


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({"edition": "sample"}, "it was built with edition 'sample' 1.0.0, not 'official' 1.0.0"),
        ({"data_version": "0.9"}, "edition 'official' 0.9, not 'official' 1.0.0"),
        ({"options": OPTIONS | {"sis": 4.0}}, "other options than the defaults: sis=4.0"),
        ({"options": OPTIONS | {"policy": "strict"}}, "policy='strict'"),
        ({"options": {}}, "is not one that `cxc-eccv build` wrote"),
        ({"sources": FILES | {"labels_mine_test": "0" * 64}}, "labels or pairs of your own: labels_mine_test"),
        ({"sources": {"sts_test": "0" * 64}}, "the report and org/cxc_eccv use different files of sts_test"),
        ({"modified": {"sts_test": {}}}, "modified files: sts_test"),
        ({"sources": None}, "is not one that `cxc-eccv build` wrote"),
        ({}, "has no result of any task that org/cxc_eccv has a task for"),
    ],
)
def test_released_data_must_match_the_report(hub, client, report, manifest, message):
    benchmark = add_benchmark(hub, **manifest)
    hub.store.write(benchmark, {"eval.yaml": b"tasks: [{id: a, config: b, split: test}]"})
    add_model(hub)
    assert message in submit(client, report, "--yes", status=2).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dataset", "org/none"), "read dataset org/none: HTTP 404, Repository not found. Check the name"),
        (("--dataset", "org/plain"), "has no eval.yaml"),
        (("--model", "me/none"), "read model me/none: HTTP 404"),
        (("--model", "me/cl ip"), "Repo id must use alphanumeric"),
    ],
)
def test_repository_that_cannot_take_results_is_named(hub, client, model, report, arguments, message):
    hub.store.create("dataset", "org/plain", {"a.txt": b"x"})
    error = client.command("submit", report, "--model", MODEL, "--dataset", BENCHMARK, *arguments, status=2).err
    assert message in error
    assert not model.pull_requests


@pytest.mark.parametrize("place", ["GET /api/datasets/org/cxc_eccv", "/resolve/.*/eval.yaml"])
def test_gated_benchmark_is_told_as_the_hub_answers(hub, client, model, report, place):
    hub.faults = [Fault(place, times=9, status=403, message="Access to this dataset is restricted")]
    told = submit(client, report, status=2).err
    assert "read dataset org/cxc_eccv: HTTP 403, Access to this dataset is restricted" in told
    assert "has no" not in told


BETTER = SCORES | {"eccv_caption/i2t/map_at_r": (0.33, {})}


def last(answer):
    return answer.out.splitlines()[-1]


def test_second_submission_updates_the_open_pull_request(hub, client, model, report):
    url = f"{hub.url}/me/clip/discussions/1"
    tasks = ("--tasks", "cxc,eccv_caption/i2t/map_at_r")
    assert last(submit(client, report, "--yes", *tasks)) == f"opened pull request: {url}"
    again = submit(client, report, "--yes", *tasks)
    assert last(again) == f"{url} has these results already"
    report.write_text(official_report(BETTER))
    better = ("--tasks", "eccv_caption/i2t/map_at_r")
    assert f"would update pull request {url}\n" in submit(client, report, *better).out
    assert proposed(model, 1)["eccv_caption_i2t_map_at_r"] == 0.3125
    assert last(submit(client, report, "--yes", *better)) == f"updated pull request: {url}"
    assert proposed(model, 1) == {"cxc_t2t_recall_at_1": 0.25, "eccv_caption_i2t_map_at_r": 0.33}
    assert len(model.pull_requests) == 1


def test_pull_requests_of_others_are_not_touched(hub, client, model, report):
    """The user's own pull requests of another title are not touched either."""
    submit(client, report, "--yes", token=READER)
    report.write_text(official_report(BETTER))
    assert last(submit(client, report, "--yes")).endswith("discussions/2")
    assert [proposed(model, number)["eccv_caption_i2t_map_at_r"] for number in (1, 2)] == [0.3125, 0.33]
    assert [one.author for one in model.pull_requests] == ["reader", "writer"]
    model.pull_requests[1].title = "Results of mine"
    assert last(submit(client, report, "--yes")).endswith("discussions/3")
    model.pull_requests[1].title = model.pull_requests[2].title
    assert last(submit(client, report)).startswith(f"{hub.url}/me/clip/discussions/3 has these results")


def test_concurrent_change_of_pull_request_is_a_conflict(hub, client, model, report):
    """The next submission keeps the change of the other."""
    submit(client, report, "--yes")
    report.write_text(official_report(BETTER))
    files = model.files("refs/pr/1") | {"NOTES.md": b"By a reviewer."}
    change = Fault("/commit/", status=200, happens=lambda: hub.store._append(model, "refs/pr/1", files, "by hand"))
    hub.faults = [change]
    assert "HubConflict" in submit(client, report, "--yes", status=2).err
    assert last(submit(client, report, "--yes")).startswith("updated pull request")
    assert model.files("refs/pr/1")["NOTES.md"] == b"By a reviewer."


@pytest.mark.parametrize("end", ["merge", "close"])
def test_closed_pull_request_is_followed_by_new_one(hub, client, model, report, end):
    submit(client, report, "--yes")
    getattr(hub.store, end)(model, 1)
    report.write_text(official_report(BETTER))
    assert last(submit(client, report, "--yes")) == f"opened pull request: {hub.url}/me/clip/discussions/2"


def test_submit_says_private_models_are_on_no_leaderboard(hub, client, benchmark, report):
    add_model(hub, "org/clip").private = True
    told = submit(client, report, "--model", "org/clip").out
    assert "org/clip is private: leaderboards show its results only after it becomes public" in told
