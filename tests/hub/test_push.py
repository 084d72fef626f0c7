"""Pushing a built dataset folder: what is shown, sent, kept and removed."""

import json
import shutil

import pytest
import yaml
from hub_endpoints import WRITER

from cxc_eccv.hub.leaderboard import eval_yaml

REPO = "org/data"


def push(client, folder, *options, **expected):
    return client.command("push", folder, REPO, *options, **expected)


@pytest.fixture
def copy(built, tmp_path):
    """The built folder, for a test that edits it."""
    return shutil.copytree(built, tmp_path / "copy")


@pytest.fixture
def pushed(hub, client, built):
    """The repository after a first push."""
    push(client, built, "--yes")
    hub.requests.clear()
    return hub.store.repositories["dataset", REPO]


def test_a_dry_run_shows_everything_and_sends_nothing(hub, client, built):
    text = push(client, built).out
    for path in ("README.md", "croissant.json", "eval.yaml", "manifest.json", "sts/test-00000-of-00001.parquet"):
        assert f"new        {path}" in text
    assert "9 new, 0 changed, 0 removed, 0 unchanged" in text
    assert "Nothing was sent. Add --yes" in text
    assert hub.requests == ["GET /api/datasets/org/data"]


def test_a_push_uploads_the_folder_with_card_and_eval_yaml(hub, built, pushed):
    files = pushed.files()
    for path in built.rglob("*.*"):
        name = path.relative_to(built).as_posix()
        assert name == "README.md" or files[name] == path.read_bytes()
    assert set(files) == {path.relative_to(built).as_posix() for path in built.rglob("*.*")} | {
        "eval.yaml",
        ".gitattributes",
    }
    assert files["eval.yaml"].decode() == eval_yaml(["eccv_caption", "sits", "sts"])
    assert {task["config"] for task in yaml.safe_load(files["eval.yaml"])["tasks"]} == {"eccv_caption", "sits", "sts"}
    initial, only = pushed.branches["main"]
    assert (initial.title, only.title) == ("initial commit", "Upload with cxc_eccv 0.1.0")


def test_a_dry_run_says_whether_there_is_a_token_and_does_not_show_it(hub, client, built):
    told = push(client, built)
    assert told.out.startswith(f"A token for {hub.url} was found.\n")
    assert told.out.endswith("Nothing was sent. Add --yes to upload.\n")
    assert WRITER not in told.out + told.err
    assert f"No token for {hub.url} was found. Run `hf auth login`" in push(client, built, token=None).out


def test_a_second_push_has_nothing_to_do(hub, client, built, pushed):
    text = push(client, built, "--yes").out
    assert "0 new, 0 changed, 0 removed, 9 unchanged; 0 B to upload" in text
    assert "is up to date" in text
    assert not hub.seen("^(POST|PUT)")


def test_only_what_changed_is_sent(hub, client, built, pushed):
    hub.store.write(pushed, {"sts/test-00000-of-00001.parquet": b"something else"})
    text = push(client, built, "--yes").out
    assert "changed    sts/test-00000-of-00001.parquet" in text
    assert "0 new, 1 changed, 0 removed, 8 unchanged" in text
    assert not hub.seen("^PUT")  # the Hub has the content from the first push
    assert pushed.files()["sts/test-00000-of-00001.parquet"] == (built / "sts/test-00000-of-00001.parquet").read_bytes()


def test_shards_and_files_of_an_earlier_build_are_removed_and_nothing_else(hub, client, built, pushed):
    manifest = json.loads(pushed.files()["manifest.json"])
    manifest["files"]["old_config/test-00000-of-00001.parquet"] = {}
    left = {"sts/test-00001-of-00002.parquet": b"1", "old_config/test-00000-of-00001.parquet": b"2"}
    kept = {"LICENSE": b"3", "photos/a.jpg": b"4", "sts/notes.md": b"5"}
    hub.store.write(pushed, {"manifest.json": json.dumps(manifest).encode()} | left | kept)
    text = push(client, built, "--yes").out
    assert "2 removed" in text
    assert not set(left) & set(pushed.files())
    assert kept.items() <= pushed.files().items()


@pytest.mark.parametrize("manifest", ["[", "[]", "null", "{}", '{"files": 3}', '{"files": [["a"]]}'])
def test_a_manifest_of_others_removes_nothing(hub, client, built, pushed, manifest):
    kept = {"old_config/test-00000-of-00001.parquet": b"2"}
    hub.store.write(pushed, {"manifest.json": manifest.encode()} | kept)
    assert "0 removed" in push(client, built, "--yes").out
    assert kept.items() <= pushed.files().items()
    assert pushed.files()["manifest.json"] == (built / "manifest.json").read_bytes()


def test_visibility_is_that_asked_for(hub, client, built):
    push(client, built, "--yes", "--private")
    assert hub.store.repositories["dataset", REPO].private


def test_framework_goes_into_eval_yaml(hub, client, built):
    push(client, built, "--yes", "--framework", "mteb")
    content = yaml.safe_load(hub.store.repositories["dataset", REPO].files()["eval.yaml"])
    assert content["evaluation_framework"] == "mteb"


def edit_card(folder):
    with (folder / "README.md").open("a") as card:
        card.write("By hand.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "secret.env").write_text("x"), "holds secret.env, which the build did not write"),
        (lambda folder: (folder / "sts/test-00000-of-00001.parquet").unlink(), "lacks sts/test-00000-of-00001.parquet"),
        (lambda folder: (folder / "sits/test-00000-of-00001.parquet").write_bytes(b"x"), "changed after the build"),
        (edit_card, "README.md was edited after the build"),
        (lambda folder: (folder / "manifest.json").unlink(), "holds no manifest.json"),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "does not have the form"),
        (lambda folder: (folder / "passwd").symlink_to("/etc/passwd"), "is a symbolic link to /etc/passwd"),
        (lambda folder: (folder / "outside").symlink_to(folder.parent), "is a symbolic link to"),
        (lambda folder: (folder / "sts/a\\b").write_text("x"), "backslash or a control character"),
    ],
    ids=["foreign", "missing", "edited", "card", "no-manifest", "manifest", "link", "folder-link", "name"],
)
def test_a_folder_that_is_not_as_built_is_refused_before_the_hub_is_asked(hub, client, copy, change, message):
    change(copy)
    assert message in push(client, copy, "--yes", status=2).err
    assert not hub.requests


def test_a_manifest_cannot_name_files_outside(hub, client, copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"]["../../etc/passwd"] = {"sha256": "0" * 64, "bytes": 1}
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert "lacks ../../etc/passwd" in push(client, copy, "--yes", status=2).err


def test_caches_are_left_out_and_named(hub, client, copy):
    (copy / "sts" / "__pycache__").mkdir()
    (copy / "sts" / "__pycache__" / "x.pyc").write_text("x")
    assert "left out   sts/__pycache__" in push(client, copy, "--yes").out
    assert not [path for path in hub.store.repositories["dataset", REPO].files() if "pycache" in path]


def test_a_file_that_the_hub_leaves_out_is_told(hub, client, built):
    hub.store.create("dataset", REPO, {".gitignore": b"manifest.json"})
    assert "left out manifest.json; its .gitignore" in push(client, built, "--yes", status=2).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("FOLDER", "data"), "write owner/name"),
        (("FOLDER", "org/da ta"), "Repo id must use alphanumeric"),
        (("FOLDER", "org/data", "--type", "model"), "'dataset' and 'space'"),
        (("nowhere", "org/data"), "nowhere is not a folder"),
        (("FOLDER", "org/data", "--timeout", "0"), "timeout is 0.0"),
    ],
)
def test_wrong_arguments(client, built, arguments, message):
    given = [str(built) if argument == "FOLDER" else argument for argument in arguments]
    assert message in client.command("push", *given, status=2).err
