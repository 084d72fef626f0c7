"""What would be sent of a folder, and the folders that cannot be pushed; none of this needs the Hub."""

import json
import shutil

import pytest
import yaml
from label_files import random_pairs, write_label_file
from official import OPTIONS

from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.errors import CxcEccvError, InvalidOption, UnknownName
from cxc_eccv.evaluate_modules.module_cards import write_space
from cxc_eccv.hub.leaderboard import eval_yaml
from cxc_eccv.hub.upload import plan_upload

REPO = "org/data"
SHARD = "sts/test-00000-of-00001.parquet"

FOLDERS = {
    "model": {"config.json": "{}", "README.md": "# Mine"},
    "space": {"app.py": "", "README.md": "---\nsdk: gradio\n---\n"},
    "report": {"report.json": "{}"},
    "texts": {"notes.txt": "mine"},
}


@pytest.fixture
def make(built, sample_library, tmp_path):
    """Writes a folder of a kind that a push takes."""

    def write(kind):
        folder = tmp_path / kind
        if kind == "build":
            return shutil.copytree(built, folder)
        folder.mkdir()
        for name, text in FOLDERS.get(kind, {"README.md": "# Mine"}).items():
            (folder / name).write_text(text)
        if kind == "labels":
            write_label_file(folder / "labels.parquet", sample_library, *random_pairs(sample_library))
        return folder

    return write


def remove(name):
    return lambda folder: (folder / name).unlink()


def rewrite(name, text):
    return lambda folder: (folder / name).write_text(text)


def keep(folder):
    """Change nothing."""


ALTERED = {
    "shard-missing": ("build", remove(SHARD), f"lacks {SHARD}, which its manifest.json lists"),
    "build-without-manifest": ("build", remove("manifest.json"), "has no manifest.json"),
    "manifest-of-another-program": ("build", rewrite("manifest.json", "{}"), "does not have the format"),
    "manifest-without-end": ("build", rewrite("manifest.json", "["), "does not have the format"),
    "labels-without-card": ("labels", remove("README.md"), "has labels but no README.md"),
    "labels-unreadable": ("labels", rewrite("labels.parquet", "x"), "expected a table of labels"),
    "labels-missing": ("labels", remove("labels.parquet"), "has no manifest.json"),
    "labels-twice": (
        "labels",
        lambda folder: shutil.copy(folder / "labels.parquet", folder / "again.parquet"),
        "both hold labels 'mine'",
    ),
    "model-without-card": ("model", remove("README.md"), "has no README.md. `cxc-eccv train` writes one"),
    "space-without-card": ("space", remove("README.md"), "has no README.md. A Space needs one"),
    "space-without-front-matter": ("space", rewrite("README.md", "# Mine"), "sdk is None"),
    "space-of-another-sdk": ("space", rewrite("README.md", "---\nsdk: shiny\n---\n"), "sdk is 'shiny'"),
    "report": ("report", keep, "is a report; to propose its results, run cxc-eccv submit"),
    "no-files-of-ours": ("texts", keep, "so `cxc-eccv build` did not write it"),
}


@pytest.mark.parametrize("fault", ALTERED)
def test_folder_that_nobody_could_load_is_refused(make, fault):
    kind, change, message = ALTERED[fault]
    folder = make(kind)
    change(folder)
    with pytest.raises(CxcEccvError) as caught:
        plan_upload(folder, REPO, "space" if kind == "space" else None)
    assert message in str(caught.value)


NAMED = {
    "space-in-name": ("build", "org/da ta", None, "Repo id must use alphanumeric"),
    "no-owner": ("build", "data", None, "'data' names no owner. Write OWNER_NAME/data"),
    "build-as-model": ("build", REPO, "model", "is no model: it has no config.json or modules.json"),
    "unknown-type": ("build", REPO, "bucket", "expected 'dataset', 'model' or 'space'"),
}


@pytest.mark.parametrize("fault", NAMED)
def test_wrong_name_or_type_is_refused(make, fault):
    kind, repository, repo_type, message = NAMED[fault]
    with pytest.raises(InvalidOption) as caught:
        plan_upload(make(kind), repository, repo_type)
    assert message in str(caught.value)


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InvalidOption, match=r"nowhere is not a folder$"):
        plan_upload("nowhere", REPO)
    with pytest.raises(InvalidOption, match="to upload the Space of the metric of this name, add --type space"):
        plan_upload("recall_at_k", REPO)
    with pytest.raises(UnknownName, match=r"unknown metric 'map_at'; did you mean 'map_at_r'\?"):
        write_space("map_at", tmp_path)


def edit_manifest(folder, **facts):
    """Change what the manifest of a built folder says."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | facts))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, None),
        ({"edition": "sample"}, "edition 'sample'"),
        ({"modified": {"sts_test": {}}}, "modified files: sts_test"),
        ({"sources": {"labels_mine_test": "0" * 64}}, "labels or pairs of your own: labels_mine_test"),
        ({"options": OPTIONS | {"sis": 4.0}}, "other options than the defaults: sis=4.0"),
    ],
    ids=["plain", "sample", "modified", "labels", "threshold"],
)
def test_only_the_plain_official_build_has_eval_yaml(make, facts, reason):
    folder = make("build")
    edit_manifest(folder, **{"edition": "official"} | facts)
    upload = plan_upload(folder, REPO)
    if reason is None:
        assert upload.files["eval.yaml"].decode() == eval_yaml(["eccv_caption", "sits", "sts"])
        assert yaml.safe_load(upload.files["eval.yaml"])["evaluation_framework"] == "cxc_eccv"
    else:
        assert "eval.yaml" not in upload.files
        assert f"  - {reason}" in upload.next_steps


def test_upload_says_what_the_build_left_out(tmp_path):
    build_folder(tmp_path / "few", configs=["sts"], data_dir="sample", progress=False)
    (note,) = plan_upload(tmp_path / "few", REPO).notes
    assert note.startswith("not built (not among the configs that were asked for): captions, ")
    assert note.endswith(", sits")
    edit_manifest(tmp_path / "few", not_built=[{"config": "adversarial", "split": "test", "reason": "no tagger"}])
    upload = plan_upload(tmp_path / "few", REPO)
    assert upload.notes[0] == "not built (no tagger): adversarial/test"
    assert str(upload).endswith("\n".join(upload.notes))


def test_files_outside_the_build_are_not_sent(make):
    folder = make("build")
    (folder / "secret.env").write_text("x")
    (folder / "sts" / "__pycache__").mkdir()
    (folder / "sts" / "__pycache__" / "x.pyc").write_text("x")
    upload = plan_upload(folder, REPO)
    assert upload.left_out == ("secret.env",)
    assert "left out: secret.env" in str(upload)
    assert not [path for path in upload.files if "secret" in path or "pycache" in path]
