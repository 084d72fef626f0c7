"""Tokens and signed addresses are shown, logged, pickled and written nowhere; nothing outside the folder is read."""

import logging
import warnings
from io import StringIO
from pathlib import Path

import pytest
from hub_endpoints import WRITER
from hub_server import Fault
from official import BENCHMARK, MODEL, add_benchmark, add_model, official_report

from cxc_eccv.errors import InvalidOption
from cxc_eccv.hub.client import Access, Repository, hide_secrets, redact
from cxc_eccv.hub.upload import read_folder

REPO = "org/data"


def files_with(text, folder):
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 429, 500])
@pytest.mark.parametrize("request_", ["commit", "preupload", "GET .*/tree"])
def test_a_hub_that_repeats_the_token_cannot_make_us_show_it(hub, client, built, status, request_):
    hub.store.create("dataset", REPO)
    headers = {"X-HF-Warning": f"echo; your token is {WRITER}", "Retry-After": "1"}
    hub.faults = [Fault(request_, times=99, status=status, headers=headers, message="you sent {authorization}")]
    answer = client.command("push", built, REPO, "--yes", status=2)  # the client checks that no secret is shown
    assert "<hidden>" in answer.err


VERBOSE = """
import logging, os
import huggingface_hub
from cxc_eccv.hub.upload import plan_push
logging.basicConfig(level=logging.DEBUG)
huggingface_hub.logging.set_verbosity_debug()
huggingface_hub.logging.enable_propagation()
huggingface_hub.constants.HF_DEBUG = True
try:
    plan_push(given, "org/data").carry_out()
finally:
    huggingface_hub.logging.set_verbosity_warning()
    huggingface_hub.logging.disable_propagation()
    huggingface_hub.constants.HF_DEBUG = False
    logging.getLogger().setLevel(logging.WARNING)
"""


def test_debug_logs_hold_neither_token_nor_signature(hub, client, built):
    hub.faults = [Fault("^PUT", status=500)]
    answer = client.code(VERBOSE, str(built))
    assert answer.status == 0, answer.err
    assert "PUT" in answer.err
    assert "X-Amz-Signature=<hidden>" in answer.err
    assert "signaturesecret" not in answer.err + answer.out


ERRORS = """
import pickle
from cxc_eccv.errors import HubError
from cxc_eccv.hub.upload import plan_push
from cxc_eccv.hub.client import Access
push = plan_push(given, "org/data")
told = [repr(push), str(push), repr(push.repository), str(push.repository)]
try:
    push.carry_out()
except HubError as error:
    assert error.__cause__ is None and error.__context__ is None
    told += [repr(error), repr(vars(error)), repr(pickle.dumps(error)), repr(error.args)]
"""


def test_errors_and_objects_hold_no_token(hub, client, built):
    hub.store.create("dataset", REPO)
    hub.faults = [Fault("commit", times=99, status=403, message="{authorization}")]
    answer = client.code(ERRORS, str(built))
    assert answer.status == 0, answer.err
    assert len(answer.told) == 8
    assert any("<hidden>" in text for text in answer.told)


def test_no_file_holds_the_token_afterwards(hub, client, built, tmp_path):
    client.command("push", built, REPO, "--yes")
    repository = hub.store.repositories["dataset", REPO]
    assert not [path for path, content in repository.files().items() if WRITER.encode() in content]
    folder = client.code("import os; told = os.environ['HF_HOME']").told
    assert not files_with(WRITER, Path(folder).parent)


def test_a_file_with_the_token_is_not_uploaded(hub, client, tmp_path):
    (tmp_path / "README.md").write_text("---\nsdk: gradio\n---\n")
    (tmp_path / "app.py").write_text(f"login('{WRITER}')")
    error = client.command("push", tmp_path, "org/space", "--type", "space", "--yes", status=2).err
    assert "app.py contains your access token" in error
    assert not hub.requests


@pytest.mark.parametrize("offset", [0, 1, (1 << 20) - 5, 1 << 20, (2 << 20) - 1])
def test_the_token_is_found_wherever_it_stands(tmp_path, offset):
    (tmp_path / "data.bin").write_bytes(b"x" * offset + WRITER.encode() + b"y" * 10)
    with pytest.raises(InvalidOption, match=r"data\.bin contains your access token"):
        read_folder(tmp_path, WRITER)


def test_notes_with_the_token_are_not_proposed(hub, client, tmp_path):
    (tmp_path / "report.json").write_text(official_report())
    add_benchmark(hub)
    model = add_model(hub)
    arguments = ("submit", tmp_path / "report.json", "--model", MODEL, "--dataset", BENCHMARK, "--notes", f"a {WRITER}")
    assert "contain your access token" in client.command(*arguments, "--yes", status=2).err
    assert not model.pull_requests


def test_objects_hide_the_token_and_it_is_no_argument_of_the_command_line(client):
    repository = Repository("org/data", "dataset", Access(WRITER, "https://hub.example"))
    assert WRITER not in f"{repository!r} {repository} {repository.access!r} {repository.access}"
    for command in ("push", "submit"):
        assert "--token" not in client.command(command, "--help").out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hf_abcdefghijklmnop", "<hidden>"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer <hidden>"),
        ("https://me:pass@hub.example/x", "https://<hidden>@hub.example/x"),
        (
            "?X-Amz-Credential=a/b&X-Amz-Date=1&Signature=x%2F",
            "?X-Amz-Credential=<hidden>&X-Amz-Date=1&Signature=<hidden>",
        ),
        ("plain text, hf_hub 3 tokens", "plain text, hf_hub 3 tokens"),
        ("https://s3/x?X-Amz-Security-Token=a%2Fb&part=1", "https://s3/x?X-Amz-Security-Token=<hidden>&part=1"),
        ("https://cdn/x?Policy=abc&Key-Pair-Id=K&x=1", "https://cdn/x?Policy=<hidden>&Key-Pair-Id=<hidden>&x=1"),
        ("https://blob/x?sp=r&sig=a/b+c= failed", "https://blob/x?sp=r&sig=<hidden> failed"),
        ("'https://s3/x?x-goog-signature=1f', again", "'https://s3/x?x-goog-signature=<hidden>', again"),
        ('"https://s3/x?TOKEN=1f", again', '"https://s3/x?TOKEN=<hidden>", again'),
        ("https://hub/x?tokens=3&design=a&page=2", "https://hub/x?tokens=3&design=a&page=2"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text, expected):
    assert redact(text) == expected


def test_warnings_pass_redacted():
    with pytest.warns(UserWarning, match="your token is <hidden>"), hide_secrets("s3cr3t"):
        warnings.warn("your token is s3cr3t", stacklevel=1)


@pytest.mark.parametrize("name", [None, "deep.library.child"], ids=["root", "a library's own handler"])
def test_whichever_handler_shows_a_record_it_is_redacted_and_then_left_alone(name):
    shown, logger = StringIO(), logging.getLogger("deep.library.child")
    owner, handler = logging.getLogger(name), logging.StreamHandler(shown)
    owner.addHandler(handler)
    try:
        with hide_secrets("s3cr3t"):
            logger.warning("sent %s", "s3cr3t")
        assert not handler.filters
        logger.warning("afterwards")
    finally:
        owner.removeHandler(handler)
    assert shown.getvalue() == "sent <hidden>\nafterwards\n"


def test_a_traceback_in_a_log_record_is_redacted(caplog):
    with hide_secrets("s3cr3t"):
        try:
            raise ValueError("sent s3cr3t")
        except ValueError:
            logging.getLogger("any").exception("failed with %s", "s3cr3t")
    assert "s3cr3t" not in caplog.text
    assert "sent <hidden>" in caplog.text


def test_links_are_refused_in_a_folder_that_may_be_reached_through_one(tmp_path):
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "inside.txt").write_text("x")
    (tmp_path / "way").symlink_to(tmp_path / "folder")
    assert [file.path for file in read_folder(tmp_path / "way")[0]] == ["inside.txt"]
    (tmp_path / "folder" / "deep" / "link").symlink_to(tmp_path / "folder" / "inside.txt")
    with pytest.raises(InvalidOption, match=r"deep/link is a symbolic link"):
        read_folder(tmp_path / "folder")


def exchange(path):
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text("yy"), "changed during the upload. Run the command again"),
        (lambda path: path.unlink(), "was deleted. Run the command again"),
        (exchange, "symbolic link"),
    ],
)
def test_a_file_that_changes_meanwhile_is_noticed(tmp_path, change, message):
    (tmp_path / "a.txt").write_text("x")
    (file,) = read_folder(tmp_path)[0]
    file.require_unchanged()
    change(tmp_path / "a.txt")
    with pytest.raises(InvalidOption, match=message):
        file.require_unchanged()
