"""The leaderboard: published models, and results from the Hub or as last read."""

from dataclasses import replace

import pytest
import yaml
from hub_endpoints import READER
from hub_server import Fault
from official import BENCHMARK as ANOTHER
from official import add_benchmark, add_model, official_report
from owner_addresses import ADDRESSES, BENCHMARK

from cxc_eccv.hub.results import _select_results

MODEL = "me/clip"
KEYS = {"eccv_caption_i2t_map_at_r": 0.4242, "eccv_caption_t2i_map_at_r": 0.6}


def add_results(hub, values, dataset=BENCHMARK, model=MODEL):
    results = [{"dataset": {"id": dataset, "task_id": name}, "value": value} for name, value in values.items()]
    repository = add_model(hub, model)
    repository.results = results
    hub.store.create("dataset", BENCHMARK, {})
    return repository


@pytest.fixture
def board(client, tmp_path):
    client.set_addresses(ADDRESSES)

    def read(*options, **settings):
        return client.command("leaderboard", *options, settings={"CXC_ECCV_CACHE": str(tmp_path), **settings}).out

    yield read
    read(CXC_ECCV_CACHE=None)


def test_leaderboard_without_address_asks_for_the_dataset(hub, client):
    text = client.command("leaderboard").out
    assert "VSE infinity (WSL grid)" in text
    assert "Name the benchmark's repository with --dataset" in text
    assert "Address:" not in text
    assert not hub.requests


def test_unreadable_benchmark_is_named_with_the_answer(board):
    text = board()
    assert "VSE infinity (WSL grid)" in text
    assert f"No results were read: read the leaderboard of {BENCHMARK}: HTTP 404" in text
    assert f"Address: {ADDRESSES['Benchmark']}\n" in text


def test_results_of_a_named_benchmark_are_kept_apart(hub, board):
    add_results(hub, KEYS)
    assert MODEL in board()
    hub.faults = [Fault("/leaderboard", status=503)] * 2
    text = board("--dataset", ANOTHER)
    assert MODEL not in text
    assert f"No results were read: read the leaderboard of {ANOTHER}: HTTP 503" in text


def test_submitted_results_stand_among_published_models(hub, board):
    add_results(hub, KEYS)
    lines = board().splitlines()
    places = [number for number, line in enumerate(lines) if MODEL in line]
    assert "51.21" in lines[places[0]]
    assert "Models with results on the Hub: 1." in lines


def test_results_read_last_are_shown_offline(hub, board):
    add_results(hub, KEYS)
    board()
    hub.faults = [Fault("/leaderboard", status=503)]
    text = board()
    assert MODEL in text
    assert f"Results are as last read: read the leaderboard of {BENCHMARK}: HTTP 503" in text


def find_rows(text, model):
    """Ranks and values of a model in the table."""
    table = [line for line in text.splitlines() if not line.startswith(("Left out", "As last read", "Not in"))]
    return [line.split(model)[1].split() for line in table if f" {model} " in line]


OTHER = "me/other"
BROKEN = [Fault(f"GET /api/models/{OTHER}", status=status, message="broken") for status in (401, 403, 404, 429, 503, 0)]


@pytest.mark.parametrize("fault", BROKEN, ids=lambda fault: fault.status)
def test_unreadable_model_leaves_the_others(hub, board, fault):
    """First without results that were read before, then with them."""
    add_results(hub, dict.fromkeys(KEYS, 0.7), model=OTHER)
    add_results(hub, KEYS)
    hub.faults = [replace(fault)]
    first = board()
    assert f"Left out: read the results of {OTHER}: " in first
    assert "Models with results on the Hub: 1." in first
    assert find_rows(first, MODEL)
    assert not find_rows(first, OTHER)
    read = board()
    assert "Models with results on the Hub: 2." in read
    for _ in range(2):  # also when it was not readable the last time
        hub.faults = [replace(fault)]
        again = board()
        assert f"As last read: read the results of {OTHER}: " in again
        assert [find_rows(again, name) for name in (MODEL, OTHER)] == [find_rows(read, name) for name in (MODEL, OTHER)]


def test_expired_token_shows_results_as_last_read(hub, client, board):
    add_results(hub, KEYS)
    board()
    text = board(HF_TOKEN="hf_expiredexpiredexpired")
    assert MODEL in text
    assert "Results are as last read" in text
    assert "HTTP 401" in text


def test_damaged_copy_of_results_counts_as_none(hub, board, tmp_path):
    add_results(hub, KEYS)
    board()
    (kept,) = tmp_path.rglob("*.json")
    kept.write_text('{"me/clip"')
    hub.faults = [Fault("/leaderboard", status=503)]
    assert "No results were read: read the leaderboard" in board()


def row(value, task_id="eccv_caption_i2t_map_at_r", dataset=BENCHMARK):
    return {"dataset": {"id": dataset, "task_id": task_id}, "value": value}


FRACTION = "expected a number from 0 to 1"
NO_DATASET = f"Left out: a.yaml of {MODEL} has an entry without a dataset"
NO_RESULT = f"Left out: {MODEL} has no result of a task that this package knows"
OF_TASK = f"Left out: eccv_caption_i2t_map_at_r of {MODEL} is"

LEFT_OUT = {
    "text": ([row("0.5")], [f"{OF_TASK} '0.5', {FRACTION}"]),
    "percentage": ([row(42.42)], [f"{OF_TASK} 42.42, {FRACTION}, so it looks like a percentage"]),
    "too-large": ([row(424.2)], [f"{OF_TASK} 424.2, {FRACTION}"]),
    "boolean": ([row(True)], [f"{OF_TASK} True, {FRACTION}"]),
    "null": ([row(None)], [f"{OF_TASK} None, {FRACTION}"]),
    "no-entry": ([{"data": 1, "filename": "a.yaml"}], [NO_DATASET]),
    "no-dataset": ([{"value": 0.5, "filename": "a.yaml"}], [NO_DATASET]),
    "other-dataset": ([row(0.5, dataset=ANOTHER)], [NO_RESULT]),
    "unknown-task": ([row(0.5, "unknown")], [NO_RESULT]),
    "invalid-file": (
        [{"filename": "a.yaml", "error": "no list", "pullRequest": 3}],
        [f"Left out: a.yaml of {MODEL} (pull request 3) is invalid: no list"],
    ),
}


@pytest.mark.parametrize("fault", LEFT_OUT)
def test_impossible_result_is_left_out_and_named(fault):
    listed, faults = LEFT_OUT[fault]
    assert _select_results(MODEL, BENCHMARK, listed) == ({}, faults)


def test_second_value_of_a_task_is_named():
    rows, faults = _select_results(MODEL, BENCHMARK, [row(0.4242), row(0.9)])
    assert rows == {MODEL: {"eccv_caption/i2t/map_at_r": 0.4242}}
    second = f"{MODEL} has a second value of eccv_caption_i2t_map_at_r, 0.9 beside 0.4242"
    assert faults == [f"Left out: {second}"]


def test_open_pull_request_has_its_own_row(hub, board):
    model = add_results(hub, {})
    rows = [{"dataset": {"id": BENCHMARK, "task_id": name}, "value": value} for name, value in KEYS.items()]
    hub.store.propose(model, {".eval_results/cxc.yaml": yaml.safe_dump(rows).encode()})
    opened = board()
    assert "51.21" in find_rows(opened, f"{MODEL} (pull request 1)")[0]
    assert len(find_rows(opened, MODEL)) == 1
    assert "The owner of a model has not accepted the results of its open pull requests." in opened
    hub.store.merge(model, 1)
    merged = board()
    assert "51.21" in find_rows(merged, MODEL)[0]
    assert "pull request" not in merged


def test_submitted_report_is_shown_before_and_after_merging(hub, client, board, tmp_path):
    """Proposed by an account that may not write to the model's repository."""
    add_benchmark(hub, BENCHMARK)
    model = add_model(hub)
    (tmp_path / "report.json").write_text(official_report())
    client.command("submit", tmp_path, "--model", MODEL, "--dataset", BENCHMARK, "--yes", token=READER)
    assert len(find_rows(board("cxc", COLUMNS="300"), f"{MODEL} (pull request 1)")) == 1
    hub.store.merge(model, 1)
    ((*values, _),) = find_rows(board("cxc", COLUMNS="200"), MODEL)  # the width that the client sets
    assert "(pull" not in values


def test_invalid_file_of_results_is_named(hub, board):
    add_results(hub, KEYS)
    hub.store.create("model", OTHER, {".eval_results/cxc.yaml": b"- ["})
    text = board()
    assert f"Left out: .eval_results/cxc.yaml of {OTHER} is invalid: while parsing" in text
    assert find_rows(text, MODEL)


def test_model_without_a_row_is_named(hub, board):
    add_results(hub, KEYS)
    add_results(hub, {"entailment_i2t_entail_at_1": 0.4}, model=OTHER)
    text = board()
    assert f"Not in this table: {OTHER}, which has results of entailment\n" in text
    assert "Models with results on the Hub: 1." in text


def test_unknown_task_names_those_with_models(client):
    told = client.command("leaderboard", "coco_1k", status=2).err
    assert "did you mean 'coco_5k'? Known: eccv_caption, cxc, coco_5k" in told


def test_submit_without_address_asks_for_the_dataset(hub, client, tmp_path):
    (tmp_path / "report.json").write_text(official_report())
    told = client.command("submit", tmp_path, "--model", MODEL, status=2).err
    assert "Name the benchmark's repository with --dataset" in told
    assert not hub.requests


def test_submit_reads_the_benchmark_of_the_owner(client, tmp_path):
    client.set_addresses(ADDRESSES)
    (tmp_path / "report.json").write_text(official_report())
    told = client.command("submit", tmp_path, "--model", MODEL, status=2).err
    assert f"read dataset {BENCHMARK}: HTTP 404" in told


@pytest.mark.parametrize("address", ["https://example.org/datasets/owner/name", "owner/name"])
def test_address_elsewhere_is_no_benchmark(client, address):
    client.set_addresses({"Benchmark": address})
    assert "Name the benchmark's repository with --dataset" in client.command("leaderboard").out
