"""A Hub that refuses, hangs up or is not there: one line that says what to do, without secrets; a killed client."""

from pathlib import Path

import pytest
from hub_endpoints import READER, WRITER
from hub_server import Fault
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
from local_hub import Client
from official import BENCHMARK, MODEL, add_benchmark, add_model, official_report

from cxc_eccv.errors import HubError, HubUnavailable, InvalidOption
from cxc_eccv.hub.client import TRANSPORT, hub_client, redact

ROOT = Path(__file__).parents[2]
REPO = "org/data"


def wrapped(error, cause):
    error.__cause__ = cause
    return error


PUT = "^PUT"
COMMIT = "POST .*/commit/"
LISTING = "GET .*/tree/"


@pytest.fixture
def repository(hub):
    """An older state of the repository, which must survive whatever fails."""
    return hub.store.create("dataset", REPO, {"README.md": b"# Ours\n", "sts/test-00000-of-00001.parquet": b"old"})


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ("hf_unknownunknownunknown", ["HubAccessDenied", "HTTP 401", "does not accept the token", "HF_TOKEN"]),
        (READER, ["HubAccessDenied", "HTTP 403", "lacks the permission", "`write`"]),
        (None, ["HubAccessDenied", "there is no token"]),
    ],
    ids=["unknown", "reader", "none"],
)
def test_a_token_that_may_not_write(hub, client, built, repository, token, told):
    before = repository.main.oid
    error = client.command("push", built, REPO, "--yes", status=2, token=token).err
    assert all(part in error for part in told), error
    assert repository.main.oid == before
    assert not hub.seen("^PUT")


def test_a_gated_repository_asks_for_access(hub, client, built, repository):
    hub.store.write(repository, {"manifest.json": b"{}"})
    hub.faults = [Fault("resolve/.*/manifest.json", times=9, status=403, code="GatedRepo")]
    told = " ".join(client.command("push", built, REPO).out.split())
    assert "The repository is gated: ask for access on its page on the Hub" in told


def test_private_repository_without_token_asks_to_login(hub, client, tmp_path):
    hub.store.create("model", MODEL, private=True)
    add_benchmark(hub)
    (tmp_path / "report.json").write_text(official_report())
    arguments = ("submit", tmp_path / "report.json", "--model", MODEL, "--dataset", BENCHMARK)
    told = " ".join(client.command(*arguments, status=2, token=None).err.split())
    assert "No token was found, and the repository is private, gated or not there" in told
    assert "hf auth login" in told


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault(COMMIT, status=400, message="framework is unknown"), ["HubError", "HTTP 400, framework is unknown"]),
        (Fault(COMMIT, status=409, message="conflict"), ["HubConflict", "Somebody else"]),
        (Fault(COMMIT, status=429), ["HubUnavailable", "HTTP 429", "Run the command again later", "not sent again"]),
        (Fault(COMMIT, times=99, status=503), ["HubUnavailable", "HTTP 503"]),
        (Fault(LISTING, times=99, status=0), ["HubUnavailable", "no answer", "Check the connection"]),
        (Fault(PUT, times=99, status=403), ["HubAccessDenied", "HTTP 403"]),
        (Fault(PUT, times=99, status=0), ["HubUnavailable", "no answer"]),
    ],
    ids=["400", "409", "429", "503", "dropped", "storage", "storage-dropped"],
)
def test_a_refusal_is_one_line_and_changes_nothing(hub, client, built, repository, fault, told):
    before = repository.main.oid
    hub.faults = [fault]
    fault.message += " for {authorization}"
    error = client.command("push", built, REPO, "--yes", status=2).err  # the client checks that no token is shown
    line = " ".join(error.partition("cxc-eccv: ")[2].split())
    assert all(part in line for part in told), error
    assert "signaturesecret" not in line
    assert repository.main.oid == before


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (TRANSPORT("reset"), HubUnavailable, "look: no answer .* Check the connection"),
        (wrapped(RuntimeError("while uploading"), TRANSPORT("reset")), HubUnavailable, "look: no answer"),
        (LocalEntryNotFoundError("not on disk"), HubUnavailable, "look: no answer"),
        (HFValidationError("Repo id must"), InvalidOption, "Repo id must"),
        (PermissionError("denied"), HubError, "look: PermissionError: denied"),
        (ValueError("bad hf_abcdefghijkl"), HubError, "look: ValueError: bad <hidden>"),
    ],
)
def test_client_error_is_one_line(raised, kind, message):
    with pytest.raises(kind, match=message), hub_client("look"):
        raise raised


def test_change_during_a_push_is_a_conflict(hub, client, built, repository):
    """The next push keeps the change of the other."""
    hub.faults = [Fault(COMMIT, status=200, happens=lambda: hub.store.write(repository, {"LICENSE": b"x"}))]
    assert "HubConflict" in client.command("push", built, REPO, "--yes", status=2).err
    client.command("push", built, REPO, "--yes")
    assert repository.files()["LICENSE"] == b"x"
    assert "manifest.json" in repository.files()


def kill_during(request, hub, folder, arguments, *, answered):
    """Kill the process of a command when the Hub gets the request, and let the Hub do what was asked, or not."""
    killed = Client(hub.url, folder, WRITER)
    hub.faults = [Fault(request, status=200 if answered else 0, happens=killed.process.kill)]
    with pytest.raises(AssertionError, match="the client died"):
        killed.command(*arguments)
    killed.close()
    assert hub.faults[0].times == 0


@pytest.mark.parametrize("request_of_push", [PUT, COMMIT])
def test_killed_push_changes_nothing_and_is_repeated(hub, client, built, repository, tmp_path, request_of_push):
    before = repository.main.oid
    push = ("push", built, REPO, "--yes")
    kill_during(request_of_push, hub, tmp_path, push, answered=False)
    assert repository.main.oid == before
    client.command(*push)
    assert "manifest.json" in repository.files()


def test_submission_killed_after_commit_is_not_repeated(hub, client, tmp_path):
    (tmp_path / "report.json").write_text(official_report())
    add_benchmark(hub)
    model = add_model(hub)
    submit = ("submit", tmp_path / "report.json", "--model", MODEL, "--dataset", BENCHMARK, "--yes")
    kill_during(COMMIT, hub, tmp_path, submit, answered=True)
    assert len(model.pull_requests) == 1
    assert "has these results already" in client.command(*submit).out
    assert len(model.pull_requests) == 1


@pytest.fixture
def submit(hub, client, tmp_path):
    (tmp_path / "report.json").write_text(official_report())
    add_benchmark(hub)
    arguments = ("submit", tmp_path / "report.json", "--model", MODEL, "--dataset", BENCHMARK, "--yes")
    return lambda **expected: client.command(*arguments, **expected)


def test_proposing_results_needs_a_token(hub, submit):
    """An account that may only read the model's repository may propose them."""
    model = add_model(hub)
    assert "there is no token" in submit(status=2, token=None).err
    assert "does not accept the token" in submit(status=2, token="hf_unknownunknownunknown").err
    hub.faults = [Fault("POST .*preupload", status=403, message="Forbidden: read-only token")]
    assert "a token of the role `write`" in submit(status=2).err
    assert not model.pull_requests
    assert "discussions/1" in submit(token=READER).out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sent hf_abcdefghijklmnop.", "sent <hidden>."),
        ("https://s3/x?X-Amz-Credential=a/b&Signature=x%2F failed", "https://s3/x?<hidden> failed"),
        ("'https://s3/x?sig=1f', again", "'https://s3/x?<hidden>', again"),
        ("plain text, hf_hub 3 tokens?", "plain text, hf_hub 3 tokens?"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text, expected):
    assert redact(text) == expected
