"""A Hub that refuses, stumbles, hangs up or dawdles: repeated where that is right, a clear error elsewhere."""

import shutil
from dataclasses import replace

import pytest
from hub_endpoints import READER
from hub_server import SILENCE, Fault
from official import BENCHMARK, MODEL, add_benchmark, add_model, official_report

REPO = "org/data"
PUT, COMMIT, SHARDS = "^PUT", "POST .*/commit/", 5
PAUSES = [1.0, 2.0, 4.0, 8.0]


@pytest.fixture
def repository(hub):
    """An older state of the repository, which must survive whatever fails."""
    return hub.store.create("dataset", REPO, {"README.md": b"# Ours\n", "sts/test-00000-of-00001.parquet": b"old"})


@pytest.fixture
def push(client, built):
    return lambda *options, **expected: client.command("push", built, REPO, "--yes", *options, **expected)


def is_whole(repository):
    """Everything of one push is there, in one commit."""
    return repository.main.title.startswith("Upload with cxc_eccv") and {"eval.yaml", "manifest.json"} <= set(
        repository.files()
    )


def all_met(hub):
    """Every fault was met as often as it should be; one that no request meets would test nothing."""
    return all(fault.times == fault.skip == 0 for fault in hub.faults)


# Refusals: no repetition helps.


@pytest.mark.parametrize(
    ("token", "status", "advice"),
    [("hf_unknownunknownunknown", 401, "does not accept the token"), (READER, 403, "may not do this")],
    ids=["401", "403"],
)
def test_a_token_that_may_not_write(hub, push, repository, token, status, advice):
    before = repository.main.oid
    answer = push(status=2, token=token)
    assert "HubAccessDenied" in answer.err
    assert f"HTTP {status}" in answer.err
    assert advice in answer.err
    assert "HF_TOKEN" in answer.err
    assert repository.main.oid == before
    assert not answer.pauses
    assert not hub.store.objects.keys() - {repository.main.files["sts/test-00000-of-00001.parquet"].sha256}


def test_a_new_repository_needs_the_right_to_make_it_and_every_push_a_token(hub, push):
    assert "HTTP 403" in push(status=2, token=READER).err
    assert not hub.store.repositories
    hub.requests.clear()
    assert "there is no token" in push(status=2, token=None).err
    assert not hub.seen("^(POST|PUT)")


@pytest.mark.parametrize(
    ("fault", "told", "pauses", "commits"),
    [
        (Fault(COMMIT, times=9, status=400, message="framework is unknown"), ["HTTP 400, framework is unknown"], [], 1),
        (Fault(COMMIT, status=429, headers={"Retry-After": "3600"}), ["HubUnavailable", "in 3600 seconds"], [], 1),
        (Fault(COMMIT, times=99, status=503), ["HubUnavailable", "HTTP 503", "not sent again"], PAUSES, 5),
        (Fault(COMMIT, times=99, status=409, message="conflict"), ["HubConflict", "Somebody else"], [], 5),
    ],
    ids=["400", "an-hour", "down", "409"],
)
def test_what_does_not_pass_is_told_and_leaves_everything_as_it_was(
    hub, push, repository, fault, told, pauses, commits
):
    before = repository.main.oid
    hub.faults = [replace(fault)]
    answer = push(status=2)
    assert all(part in answer.err for part in told), answer.err
    assert answer.pauses == pauses
    assert len(hub.seen(COMMIT)) == commits
    assert repository.main.oid == before


# Conflicts: planned anew.


def test_somebody_else_commits_meanwhile(hub, push, repository):
    def edit():
        hub.store.write(repository, {"README.md": b"# Ours\n\nWritten just now.\n", "LICENSE": b"x"})

    hub.faults = [Fault(COMMIT, status=200, happens=edit)]
    assert "uploaded to" in push().out
    assert all_met(hub)
    assert is_whole(repository)
    assert "Written just now." in repository.files()["README.md"].decode()
    assert repository.files()["LICENSE"] == b"x"


# Passing troubles: repeated after a pause.


def test_429_waits_as_long_as_the_hub_asks(hub, push, repository):
    hub.faults = [
        Fault(COMMIT, status=429, headers={"Retry-After": "7"}),
        Fault(PUT, status=429, headers={"Retry-After": "3"}),
        Fault("GET /api/datasets/org/data$", status=429, headers={"Retry-After": "2"}),
    ]
    answer = push()
    assert is_whole(repository)
    assert answer.pauses == [2.0, 4.0, 7.0]  # the client itself adds a second


@pytest.mark.parametrize(
    "fault",
    [
        Fault(PUT, status=500, reads=100),
        Fault(PUT, status=0, reads=100),
        Fault(PUT, status=503, times=3),
        Fault("POST .*objects/batch", status=502),
        Fault("POST .*preupload", status=0),
        Fault("POST /api/validate-yaml", status=500),
        Fault("POST /api/validate-yaml", status=502, page=b"<html>Bad gateway</html>"),
        Fault("GET .*/tree/", status=504),
        Fault("GET /api/datasets/org/data$", status=0),
        Fault("HEAD .*README.md", status=500),
        Fault("GET .*resolve.*README.md", status=0),
        Fault("GET .*/commits/", status=503),
        Fault(COMMIT, status=500),
        Fault(COMMIT, status=0),
        Fault(COMMIT, status=0, reads=10),
        Fault(COMMIT, status=502, page=b"<html>Bad gateway</html>"),
        Fault(COMMIT, status=409, message="conflict"),
    ],
    ids=lambda fault: f"{fault.request.rpartition('.*')[2]}-{fault.status}",
)
def test_a_passing_trouble_is_repeated(hub, push, repository, fault):
    hub.faults = [replace(fault)]
    assert "uploaded to" in push().out
    assert all_met(hub)
    assert is_whole(repository)
    assert repository.files()["README.md"].startswith(b"---\n")
    assert b"# Ours" in repository.files()["README.md"]
    assert len(repository.branches["main"]) == 3


@pytest.mark.parametrize("status", [0, 500, 504], ids=["dropped", "500", "504"])
def test_a_commit_whose_answer_is_lost_is_not_made_twice(hub, push, repository, status):
    hub.faults = [Fault(COMMIT, status=status, acts=True)]
    assert "uploaded to" in push().out
    assert all_met(hub)
    assert is_whole(repository)
    assert len(repository.branches["main"]) == 3
    assert len(hub.seen(COMMIT)) == 1


def test_an_upload_that_failed_goes_on_where_it_ended(hub, push, repository):
    hub.faults = [Fault(PUT, times=99, skip=2)]
    assert "HubUnavailable" in push(status=2).err
    assert "eval.yaml" not in repository.files()
    sent = len(hub.store.objects) - 1
    assert 2 <= sent < SHARDS
    hub.faults = []
    hub.requests.clear()
    push()
    assert len(hub.seen(PUT)) == SHARDS - sent
    assert is_whole(repository)


def test_an_answer_that_takes_its_time_is_waited_for(hub, push, repository):
    hub.faults = [Fault("commit|preupload|objects", times=3, status=200, seconds=0.3)]
    assert not push("--timeout", "5").pauses
    assert all_met(hub)
    assert is_whole(repository)


@pytest.mark.parametrize(
    "request_",
    [COMMIT, PUT, "GET .*/tree/", "GET /api/datasets/org/data$", "preupload", "objects/batch", "HEAD"],
)
def test_a_silent_hub_is_asked_again(hub, push, repository, request_):
    hub.faults = [Fault(request_, status=0, seconds=SILENCE)]
    answer = push("--timeout", "0.4")  # without it the silence outlasts the test's patience
    assert all_met(hub)
    assert is_whole(repository)
    assert answer.pauses == PAUSES[: len(answer.pauses)]  # the client repeats some requests at once


def test_a_hub_that_is_not_there(client, hub, built):
    code = """
from cxc_eccv.hub.upload import plan_push
from cxc_eccv.hub.client import Access
plan_push(given, "org/data", access=Access(endpoint="http://127.0.0.1:9"))
"""
    answer = client.code(code, str(built))
    assert answer.error == "HubUnavailable"
    assert "no answer" in answer.message
    assert "Check the connection" in answer.message
    assert answer.pauses == PAUSES


def test_a_file_that_is_exchanged_while_others_are_sent_is_not_committed(hub, client, built, repository, tmp_path):
    before, copy = repository.main.oid, shutil.copytree(built, tmp_path / "copy")
    exchanged = copy / "manifest.json"
    hub.faults = [Fault("objects/batch", status=200, happens=lambda: exchanged.write_text("{}"))]
    error = client.command("push", copy, REPO, "--yes", status=2).err
    assert "manifest.json changed during the upload" in error
    assert repository.main.oid == before


# Pull requests: one, however often the Hub stumbles.


@pytest.fixture
def submit(hub, client, tmp_path):
    (tmp_path / "report.json").write_text(official_report())
    add_benchmark(hub)
    arguments = ("submit", tmp_path / "report.json", "--model", MODEL, "--dataset", BENCHMARK, "--yes")
    return lambda *options, **expected: client.command(*arguments, *options, **expected)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(COMMIT, status=0, acts=True),
        Fault(COMMIT, status=500, acts=True),
        Fault(COMMIT, status=0),
        Fault(COMMIT, status=429, headers={"Retry-After": "2"}),
        Fault(COMMIT, status=409),
        Fault("GET .*/discussions", status=503),
        Fault("POST .*preupload", status=500),
        Fault("HEAD .*manifest.json", status=500),
        Fault(COMMIT, status=0, seconds=SILENCE, acts=True),
    ],
    ids=["lost", "lost-500", "dropped", "429", "409", "discussions", "preupload", "download", "silent"],
)
def test_one_pull_request_is_opened(hub, submit, fault):
    model = add_model(hub)
    hub.faults = [replace(fault)]
    assert "discussions/1" in submit("--timeout", "0.5").out
    assert all_met(hub)
    assert len(model.pull_requests) == 1
    assert len(model.branches["main"]) == 2


def test_anyone_may_propose_results_but_not_without_a_token(hub, submit):
    model = add_model(hub)
    assert "there is no token" in submit(status=2, token=None).err
    assert "does not accept the token" in submit(status=2, token="hf_unknownunknownunknown").err
    assert "discussions/1" in submit(token=READER).out
    assert len(model.pull_requests) == 1
