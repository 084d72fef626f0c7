"""A shelf that one group pushes, and another pulls and adds to; nobody's runs are lost."""

import shutil

import pytest

from cxc_eccv.evaluation.kept import keep_run
from cxc_eccv.shelf import add_run, read_shelf


@pytest.fixture
def shelf(tmp_path, sample_library, make_run):
    run = make_run(sample_library, width=8)
    keep_run(tmp_path / "a.run.parquet", run, data_dir=sample_library, name="a", progress=False)
    add_run(tmp_path / "shelf", tmp_path / "a.run.parquet")
    return tmp_path / "shelf"


def test_a_shelf_goes_to_the_hub_and_back(hub, client, shelf, tmp_path):
    (shelf / "notes.txt").write_text("private")
    shown = client.command("shelf", "push", shelf, "org/shelf")
    assert "new        a.run.parquet" in shown.out
    assert "Nothing was sent" in shown.out
    assert "shelf pull org/shelf" in client.command("shelf", "push", shelf, "org/shelf", "--yes").out
    repository = hub.store.repositories["dataset", "org/shelf"]
    assert set(repository.files()) - {".gitattributes"} == {"README.md", "shelf.json", "a.run.parquet"}
    pulled = client.command("shelf", "pull", "org/shelf", tmp_path / "theirs")
    assert "has 1 runs, 1 of them new" in pulled.out
    assert (tmp_path / "theirs" / "a.run.parquet").read_bytes() == (shelf / "a.run.parquet").read_bytes()
    assert read_shelf(tmp_path / "theirs") == read_shelf(shelf)


def test_runs_of_others_are_pulled_before_a_push_and_none_is_replaced(hub, client, shelf, tmp_path):
    client.command("shelf", "push", shelf, "org/both", "--yes")
    theirs = shutil.copytree(shelf, tmp_path / "theirs")
    add_run(theirs, tmp_path / "a.run.parquet", name="b")
    (theirs / "a.run.parquet").unlink()
    (theirs / "shelf.json").unlink()
    add_run(theirs, theirs / "b.run.parquet")
    refused = client.command("shelf", "push", theirs, "org/both", "--yes", status=2)
    assert "has a.run.parquet, which this shelf lacks. Run cxc-eccv shelf pull org/both FOLDER first" in refused.err
    client.command("shelf", "pull", "org/both", theirs)
    client.command("shelf", "push", theirs, "org/both", "--yes")
    files = hub.store.repositories["dataset", "org/both"].files()
    assert {name for name in files if name.endswith("parquet")} == {"a.run.parquet", "b.run.parquet"}
    assert "has 2 runs, 1 of them new" in client.command("shelf", "pull", "org/both", shelf).out
    add_run(tmp_path / "mine", tmp_path / "a.run.parquet", training_data=["web"])
    other = client.command("shelf", "pull", "org/both", tmp_path / "mine", status=2)
    assert "a.run.parquet differs from the file of dataset org/both" in other.err


def test_a_damaged_run_on_the_hub_is_not_pulled(hub, client, shelf, tmp_path):
    client.command("shelf", "push", shelf, "org/damaged", "--yes")
    repository = hub.store.repositories["dataset", "org/damaged"]
    content = repository.files()["a.run.parquet"]
    hub.store.write(repository, {"a.run.parquet": content[:5000] + b"x" + content[5001:]})
    refused = client.command("shelf", "pull", "org/damaged", tmp_path / "theirs", status=2)
    assert "MalformedRun" in refused.err
    assert not list((tmp_path / "theirs").glob("*.parquet"))
