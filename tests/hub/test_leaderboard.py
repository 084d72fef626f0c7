"""The leaderboard: published models, and results from the Hub or as last read."""

import pytest
from hub_server import Fault
from official import BENCHMARK as ANOTHER
from official import add_model, official_report
from owner_addresses import ADDRESSES, BENCHMARK

MODEL = "me/clip"
KEYS = {"eccv_caption_i2t_map_at_r": 0.4242, "eccv_caption_t2i_map_at_r": 0.6}


def add_results(hub, values, dataset=BENCHMARK):
    results = [{"dataset": {"id": dataset, "task_id": name}, "value": value} for name, value in values.items()]
    add_model(hub, MODEL).results = results
    hub.store.create("dataset", BENCHMARK, {})


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
    assert "no results were read before" in text


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
    assert "results are as last read" in text


@pytest.mark.parametrize("value", ["0.5", 1.5, True, None])
def test_impossible_scores_are_left_out(hub, board, value):
    add_results(hub, dict.fromkeys(KEYS, value))
    assert MODEL not in board()


def test_results_of_other_datasets_are_left_out(hub, board):
    add_results(hub, KEYS, ANOTHER)
    assert MODEL not in board()


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
