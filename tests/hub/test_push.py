"""Pushing a built dataset folder: what is shown, sent, kept and removed."""

import json
import re
import shutil

import pytest
from hub_endpoints import WRITER
from hub_server import Fault

from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.builders.mteb_layout import mteb_files
from cxc_eccv.hub.leaderboard import eval_yaml

REPO = "org/data"


def edit_manifest(folder, **facts):
    """Change what the manifest of a built folder says."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | facts))


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


def test_dry_run_lists_files_without_sending(hub, client, built):
    shown = push(client, built)
    for path in ("LICENSE.md", "README.md", "manifest.json", "sts/test-00000-of-00001.parquet"):
        assert f"  {path}\n" in shown.out
    assert f"A token for {hub.url} was found. Nothing was sent. Add --yes" in shown.out
    assert WRITER not in shown.out + shown.err
    assert f"No token for {hub.url} was found. Run `hf auth login`" in push(client, built, token=None).out
    assert "org/data is new" in shown.out
    assert not hub.seen("^PUT|^POST")


def test_a_push_uploads_the_folder_with_its_card(hub, built, pushed):
    files = pushed.files()
    for path in built.rglob("*.*"):
        name = path.relative_to(built).as_posix()
        assert name == "README.md" or files[name] == path.read_bytes()
    assert set(files) == {path.relative_to(built).as_posix() for path in built.rglob("*.*")} | {".gitattributes"}
    initial, only = pushed.branches["main"]
    assert (initial.title, only.title) == ("initial commit", "Upload with cxc_eccv 0.1.0")


def test_a_second_push_sends_only_what_changed(hub, client, built, pushed):
    push(client, built, "--yes")
    assert not hub.seen("^PUT|/commit/")
    shard = "sts/test-00000-of-00001.parquet"
    hub.store.write(pushed, {shard: b"something else"})
    push(client, built, "--yes")
    assert not hub.seen("^PUT")  # the Hub has the content from the first push
    assert pushed.files()[shard] == (built / shard).read_bytes()


def test_only_shards_of_an_earlier_build_are_removed(hub, client, built, pushed):
    """Other files of the repository stay."""
    left = {"sts/test-00001-of-00002.parquet": b"1", "eccv_caption/test-00000-of-00002.parquet": b"2"}
    kept = {"LICENSE": b"3", "photos/a.jpg": b"4", "sts/notes.md": b"5", "mine/test.parquet": b"6"}
    hub.store.write(pushed, left | kept)
    push(client, built, "--yes")
    assert not set(left) & set(pushed.files())
    assert kept.items() <= pushed.files().items()


BOARD = eval_yaml(["eccv_caption", "sits", "sts"])


@pytest.mark.parametrize(
    ("there", "facts", "removed", "loss"),
    [
        ({"sis/test-00000-of-00001.parquet": b"1"}, {}, ["sis/test-00000-of-00001.parquet"], "lacks sis/test"),
        ({"sts/val-00000-of-00001.parquet": b"1"}, {}, ["sts/val-00000-of-00001.parquet"], "lacks sts/val"),
        ({}, {"edition": "official"}, [], "its edition is 'sample', and that of this folder is 'official'"),
        ({"eval.yaml": BOARD.encode()}, {}, ["eval.yaml"], "its eval.yaml would lose the tasks cxc_rated_i2t"),
        ({"manifest.json": b"{}", "labels.parquet": b"1"}, {}, [], "it has labels, labels.parquet"),
    ],
    ids=["config", "split", "edition", "tasks", "labels"],
)
def test_a_push_that_takes_data_away_needs_replace(hub, client, copy, pushed, there, facts, removed, loss):
    hub.store.write(pushed, there)
    edit_manifest(copy, **facts)
    before = pushed.main.oid
    shown = push(client, copy).out
    assert re.findall(r"removed from the Hub: (\S+)", shown) == removed
    assert loss in shown.partition("Needs --replace")[2]
    assert loss in " ".join(push(client, copy, "--yes", status=2).err.split())
    assert pushed.main.oid == before
    push(client, copy, "--yes", "--replace")
    assert not set(removed) & set(pushed.files())


def test_output_fits_a_terminal(client, copy):
    long = [{"config": "adversarial", "split": "test", "reason": "the tool that makes it is missing"}]
    edit_manifest(copy, not_built=long)
    texts = [push(client, copy, token=None).out, push(client, copy, "--yes").out]
    lines = "\n".join(texts).split("\n")
    assert max(len(line) for line in lines if " " in line.strip()) <= 80


def test_a_dry_run_without_the_hub_says_so(hub, client, built):
    hub.faults = [Fault("GET", times=99, status=503)]
    assert "Not compared with the files on the Hub: read dataset org/data: HTTP 503" in push(client, built).out


def test_a_folder_for_mteb_brings_its_own_benchmark(hub, client, tmp_path):
    folder = tmp_path / "mteb"
    build_folder(folder, layout="mteb", data_dir="sample", progress=False)
    (folder / "eval.yaml").write_text(mteb_files(is_benchmark=True)["eval.yaml"])
    listed = json.loads((folder / "manifest.json").read_text())["files"] | {"eval.yaml": {}}
    edit_manifest(folder, files=listed)
    push(client, folder, "--yes")
    assert "eval.yaml" not in hub.store.repositories["dataset", REPO].files()  # the sample's
    hub.reset()
    edit_manifest(folder, edition="official")
    steps = push(client, folder, "--yes").out
    assert "2. Ask the Hub's staff" in steps
    assert "cxc_eccv'" not in steps
    files = hub.store.repositories["dataset", REPO].files()
    assert files["eval.yaml"] == (folder / "eval.yaml").read_bytes()
    assert files["mteb_tasks.py"] == (folder / "mteb_tasks.py").read_bytes()


def test_visibility_is_that_asked_for(hub, client, built):
    push(client, built, "--yes", "--private")
    repository = hub.store.repositories["dataset", REPO]
    assert repository.private
    refused = push(client, built, "--yes", "--no-private", status=2).err
    assert "org/data is private, and a push does not change that" in refused
    repository.private = False
    assert "org/data is public" in push(client, built, "--yes", "--private", status=2).err
    assert len(repository.branches["main"]) == 2


def test_the_next_steps_are_told_after_the_upload(hub, client, copy):
    text = push(client, copy, "--yes").out
    assert text.startswith("This is toy data: it was made from the embedded sample")
    assert "no results can be submitted to it. It was built with\n  - edition 'sample' 1.0.0, not" in text
    hub.reset()
    edit_manifest(copy, edition="official")
    assert "leaderboard" not in push(client, copy).out
    assert "toy" not in push(client, copy).out
    text = push(client, copy, "--yes").out
    assert "1. Make the dataset public" in text
    assert "evaluation_framework 'cxc_eccv'" in text
    assert "https://huggingface.co/spaces/OpenEvals/README/discussions/2" in text


def test_altered_folder_is_refused_before_any_request(hub, client, copy):
    (copy / "manifest.json").unlink()
    assert "has no manifest.json" in push(client, copy, "--yes", status=2).err
    assert not hub.requests
