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
    built_files = ("LICENSE.md", "README.md", "croissant.json", "eval.yaml", "manifest.json")
    for path in (*built_files, "sts/test-00000-of-00001.parquet"):
        assert f"new        {path}" in text
    assert "10 new, 0 changed, 0 removed, 0 unchanged" in text
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


def test_a_second_push_has_nothing_to_do_and_only_what_changed_is_sent(hub, client, built, pushed):
    text = push(client, built, "--yes").out
    assert "0 new, 0 changed, 0 removed, 10 unchanged; 0 B to upload" in text
    assert "is up to date" in text
    assert not hub.seen("^(POST|PUT)")
    shard = "sts/test-00000-of-00001.parquet"
    hub.store.write(pushed, {shard: b"something else"})
    text = push(client, built, "--yes").out
    assert f"changed    {shard}" in text
    assert "0 new, 1 changed, 0 removed, 9 unchanged" in text
    assert not hub.seen("^PUT")  # the Hub has the content from the first push
    assert pushed.files()[shard] == (built / shard).read_bytes()


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
def test_a_manifest_and_an_eval_yaml_of_others_are_replaced_and_remove_nothing(hub, client, built, pushed, manifest):
    kept = {"old_config/test-00000-of-00001.parquet": b"2"}
    theirs = b"[" if manifest == "[" else b"tasks: 3"
    hub.store.write(pushed, {"manifest.json": manifest.encode(), "eval.yaml": theirs} | kept)
    text = push(client, built, "--yes").out
    assert "0 removed" in text
    assert "drops" not in text
    files = pushed.files()
    assert kept.items() <= files.items()
    assert files["manifest.json"] == (built / "manifest.json").read_bytes()
    assert files["eval.yaml"].decode() == eval_yaml(["eccv_caption", "sits", "sts"])


def test_visibility_and_framework_are_those_asked_for(hub, client, built):
    push(client, built, "--yes", "--private", "--framework", "mteb")
    repository = hub.store.repositories["dataset", REPO]
    assert repository.private
    assert yaml.safe_load(repository.files()["eval.yaml"])["evaluation_framework"] == "mteb"


def task_ids(repository):
    return [task["id"] for task in yaml.safe_load(repository.files()["eval.yaml"])["tasks"]]


def test_the_main_metrics_are_declared_all_of_them_on_request_and_those_that_go_are_told(hub, client, built):
    push(client, built, "--yes")
    repository = hub.store.repositories["dataset", REPO]
    main = task_ids(repository)
    assert main == [
        "eccv_caption_i2t_map_at_r",
        "eccv_caption_t2i_map_at_r",
        "cxc_sts_bootstrap_spearman",
        "cxc_sits_bootstrap_spearman",
        "cxc_rated_i2t_recall_at_1",
        "cxc_rated_t2i_recall_at_1",
    ]
    assert "changed    eval.yaml" in push(client, built, "--all-tasks", "--yes").out
    every = task_ids(repository)
    assert every[: len(main)] == main
    assert "eccv_caption_i2t_r_precision" in every
    text = " ".join(push(client, built, "--yes").out.split())
    assert task_ids(repository) == main
    lost = len(every) - len(main)
    assert f"eval.yaml drops {lost} tasks of the leaderboard: cxc_rated_i2t_recall_at_10," in text
    assert f"and {lost - 3} more. --all-tasks keeps those" in text
    assert "drops" not in push(client, built).out


def make_official(folder):
    """As if it were built from the real data."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"edition": "official"}))


def test_what_the_hubs_staff_must_do_is_told_after_the_upload(hub, client, copy):
    make_official(copy)
    assert "leaderboard" not in push(client, copy).out
    for text in (push(client, copy, "--yes").out, push(client, copy, "--yes").out):
        assert text.partition(f"{hub.url}/datasets/{REPO}")[2].partition("\n")[2] == (
            "To do once before the Hub shows a leaderboard:\n"
            "1. The Hub must know the evaluation_framework 'cxc_eccv'. If its list lacks the\n"
            "   name, add it with a pull request, or push again with --framework and a name\n"
            "   from the list:\n"
            "   https://github.com/huggingface/huggingface.js/blob/main/packages/tasks/src/eval.ts\n"
            "2. The Hub's staff must activate the leaderboard. Ask for it in the discussion\n"
            "   that collects new benchmarks, with the address above:\n"
            "   https://huggingface.co/spaces/OpenEvals/README/discussions/2\n"
        )
    assert "evaluation_framework 'mteb'" in push(client, copy, "--yes", "--framework", "mteb").out


def add_outside_file(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["../../etc/passwd"] = {"sha256": "0" * 64, "bytes": 1}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_private_dataset_must_become_public_first_and_one_of_another_edition_is_no_leaderboard(client, copy):
    text = push(client, copy, "--yes", "--private").out
    assert text.endswith("This is the edition 'sample': no results can be submitted to it.\n")
    assert "staff" not in text
    make_official(copy)
    text = push(client, copy, "--yes").out
    assert "1. The dataset is private and must be public." in text
    assert "3. The Hub's staff" in text


def edit_card(folder):
    with (folder / "README.md").open("a") as card:
        card.write("By hand.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "secret.env").write_text("x"), "has secret.env, which the build did not write"),
        (lambda folder: (folder / "sts/test-00000-of-00001.parquet").unlink(), "lacks sts/test-00000-of-00001.parquet"),
        (lambda folder: (folder / "sits/test-00000-of-00001.parquet").write_bytes(b"x"), "changed after the build"),
        (edit_card, "README.md was edited after the build"),
        (lambda folder: (folder / "manifest.json").unlink(), "has no manifest.json"),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "does not have the format"),
        (add_outside_file, "lacks ../../etc/passwd"),
        (lambda folder: (folder / "passwd").symlink_to("/etc/passwd"), "is a symbolic link to /etc/passwd"),
        (lambda folder: (folder / "outside").symlink_to(folder.parent), "is a symbolic link to"),
        (lambda folder: (folder / "sts/a\\b").write_text("x"), "backslash or a control character"),
    ],
    ids=["foreign", "missing", "edited", "card", "no-manifest", "manifest", "outside", "link", "folder-link", "name"],
)
def test_a_folder_that_is_not_as_built_is_refused_before_the_hub_is_asked(hub, client, copy, change, message):
    change(copy)
    assert message in push(client, copy, "--yes", status=2).err
    assert not hub.requests


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
        (("FOLDER", "org/data", "--type", "model"), "expected 'dataset' or 'space'"),
        (("nowhere", "org/data"), "nowhere is not a folder"),
        (("FOLDER", "org/data", "--timeout", "0"), "timeout is 0.0"),
    ],
)
def test_wrong_arguments(client, built, arguments, message):
    given = [str(built) if argument == "FOLDER" else argument for argument in arguments]
    assert message in client.command("push", *given, status=2).err
