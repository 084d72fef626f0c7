"""A second submission goes into one's own open pull request, whatever became of it and of the model meanwhile."""

import pytest
import yaml
from hub_endpoints import READER
from hub_server import Fault
from official import BENCHMARK, MODEL, SCORES, add_benchmark, add_model, official_report

PATH = ".eval_results/cxc_eccv.yaml"
COMMIT = "POST .*/commit/"
BETTER = SCORES | {"eccv_caption/i2t/map_at_r": (0.33, {})}


@pytest.fixture
def model(hub):
    add_benchmark(hub)
    return add_model(hub)


@pytest.fixture
def submit(client, model, tmp_path):
    def submit(scores=SCORES, *options, **expected):
        (tmp_path / "report.json").write_text(official_report(scores))
        arguments = ("submit", tmp_path / "report.json", "--model", MODEL, "--dataset", BENCHMARK)
        return client.command(*arguments, *options, **expected)

    return submit


def value(model, branch="refs/pr/1", task_id="eccv_caption_i2t_map_at_r"):
    rows = yaml.safe_load(model.files(branch)[PATH])
    return {row["dataset"]["task_id"]: row["value"] for row in rows}.get(task_id)


def last(answer):
    return answer.out.splitlines()[-1]


def test_the_same_results_again_change_nothing(hub, model, submit):
    url = f"{hub.url}/me/clip/discussions/1"
    assert last(submit(SCORES, "--yes", "--date", "2026-01-02")) == f"opened pull request: {url}"
    before = model.branches["refs/pr/1"][-1].oid
    assert last(submit(SCORES, "--yes", "--date", "2026-01-03")) == f"{url} has these results already"
    assert model.branches["refs/pr/1"][-1].oid == before
    assert len(model.pull_requests) == 1


def test_other_results_update_it(hub, model, submit):
    submit(SCORES, "--yes")
    url = f"{hub.url}/me/clip/discussions/1"
    shown = submit(BETTER).out
    assert shown.endswith(f"would update pull request {url}\nNothing was sent. Add --yes to send it.\n")
    assert "-  value: 0.3125\n" in shown  # against what the pull request holds
    assert "+  value: 0.33\n" in shown
    assert value(model) == 0.3125
    assert last(submit(BETTER, "--yes")) == f"updated pull request: {url}"
    assert value(model) == 0.33
    assert len(model.pull_requests) == 1
    assert PATH not in model.files()


def test_results_of_further_tasks_are_added_and_the_cards_are_updated_with_them(model, submit):
    submit(SCORES, "--yes", "--tasks", "cxc,eccv_caption/i2t/map_at_r", "--model-index")
    submit(BETTER, "--yes", "--tasks", "eccv_caption/i2t/map_at_r", "--model-index")
    assert value(model, task_id="cxc_t2t_recall_at_1") == 0.25
    assert value(model) == 0.33
    assert len(model.pull_requests) == 1
    card = model.files("refs/pr/1")["README.md"].decode()
    assert "value: 0.33" in card
    assert "value: 0.3125" not in card


def test_one_of_others_is_not_touched(model, submit):
    submit(SCORES, "--yes", token=READER)
    assert "discussions/1 has these results already" in submit(SCORES, "--yes").out
    assert last(submit(BETTER, "--yes")).endswith("discussions/2")
    assert (value(model), value(model, "refs/pr/2")) == (0.3125, 0.33)
    assert [one.author for one in model.pull_requests] == ["reader", "writer"]
    assert last(submit(BETTER, "--yes", token=READER)).startswith("updated pull request")
    assert value(model) == 0.33


def test_a_malformed_one_of_others_stops_nobody(hub, model, submit):
    submit(SCORES, "--yes", token=READER)
    hub.store._append(model, "refs/pr/1", {PATH: b"- broken"}, "by hand")
    assert last(submit(SCORES, "--yes")).endswith("discussions/2")
    hub.store._append(model, "refs/pr/2", {PATH: b"- broken"}, "by hand")
    assert "Correct or delete it" in submit(SCORES, "--yes", status=2).err


def test_a_pull_request_of_another_title_is_left_alone(hub, model, submit):
    submit(SCORES, "--yes")
    model.pull_requests[0].title = "Results of mine"
    assert last(submit(BETTER, "--yes")).endswith("discussions/2")
    assert value(model) == 0.3125


def test_after_it_was_merged_a_new_one_is_opened_for_new_results_alone(hub, model, submit):
    submit(SCORES, "--yes")
    hub.store.merge(model, 1)
    assert last(submit(SCORES, "--yes")) == f"model {MODEL} on {hub.url} has these results already"
    shown = submit(BETTER, "--yes").out
    assert "closed without being merged" not in shown
    assert shown.splitlines()[-1] == f"opened pull request: {hub.url}/me/clip/discussions/2"


def test_one_that_was_closed_is_told_and_a_new_one_opened(hub, model, submit):
    submit(SCORES, "--yes")
    hub.store.close(model, 1)
    told = f"your earlier pull request {hub.url}/me/clip/discussions/1 was closed without being merged\n"
    assert told in submit(SCORES).out
    assert last(submit(SCORES, "--yes")).endswith("discussions/2")
    assert "closed without" not in submit(SCORES, token=READER).out


def test_without_a_token_a_dry_run_knows_none_of_ones_own(model, submit):
    submit(SCORES, "--yes")
    shown = submit(BETTER, token=None).out
    assert "No token for" in shown
    assert "would open" in shown


@pytest.mark.parametrize("what", ["merge", "close"])
def test_one_that_is_merged_or_closed_while_it_is_updated(hub, model, submit, what):
    submit(SCORES, "--yes")
    hub.faults = [Fault(COMMIT, status=200, happens=lambda: getattr(hub.store, what)(model, 1))]
    assert last(submit(BETTER, "--yes")).endswith("opened pull request: " + f"{hub.url}/me/clip/discussions/2")
    assert value(model, "refs/pr/2") == 0.33


def test_one_that_somebody_changes_meanwhile_is_looked_at_again(hub, model, submit):
    submit(SCORES, "--yes")
    files = {**model.files("refs/pr/1"), "NOTES.md": b"By a reviewer."}
    hub.faults = [Fault(COMMIT, status=200, happens=lambda: hub.store._append(model, "refs/pr/1", files, "by hand"))]
    assert last(submit(BETTER, "--yes")).startswith("updated")
    assert model.files("refs/pr/1")["NOTES.md"] == b"By a reviewer."
    assert value(model) == 0.33


@pytest.mark.parametrize("status", [0, 500])
def test_an_update_whose_answer_is_lost_is_not_made_twice(hub, model, submit, status):
    submit(SCORES, "--yes")
    hub.faults = [Fault(COMMIT, status=status, acts=True)]
    assert "discussions/1" in last(submit(BETTER, "--yes"))
    assert len(model.branches["refs/pr/1"]) == 3  # of main, and of either submission
    assert len(model.pull_requests) == 1


def test_one_that_is_opened_meanwhile_is_not_doubled(hub, client, model, submit):
    submit(SCORES, "--yes")
    opened = model.pull_requests.pop()
    hub.faults = [Fault("POST .*preupload", status=200, happens=lambda: model.pull_requests.append(opened))]
    assert last(submit(BETTER, "--yes")).startswith("updated")
    assert len(model.pull_requests) == 1


def test_a_private_model_is_said_to_be_on_no_leaderboard(hub, submit):
    model = add_model(hub, "org/clip")
    model.private = True
    told = submit(SCORES, "--model", "org/clip")
    assert "org/clip is private: leaderboards show its results only after it becomes public" in told.out
    answer = submit(SCORES, "--model", "org/clip", token=READER, status=2)
    assert "is private or gated and this token may not read it" in answer.err


def test_a_token_that_may_not_propose_is_told_which_may(hub, model, submit):
    hub.faults = [Fault("POST .*preupload", status=403, message="Forbidden: read-only token")]
    answer = submit(SCORES, "--yes", status=2)
    assert "HubAccessDenied" in answer.err
    assert "a token of the role `write`" in answer.err
    assert not model.pull_requests


def test_notes_fit_a_terminal(hub, submit):
    add_benchmark(hub, all_tasks=False)
    shown = submit(SCORES | {f"cxc/i2t/recall_at_{k}": (0.9, {"k": k}) for k in range(20, 40)}).out
    notes = shown.partition("---")[0]
    assert "recall_at_39" in notes
    assert all(len(line) <= 80 for line in notes.splitlines())
