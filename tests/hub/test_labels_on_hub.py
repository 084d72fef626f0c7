"""Labels that one group pushes, another loads by the dataset's name, and a report says which commit that was."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from label_files import random_pairs, write_label_file

from cxc_eccv.errors import InvalidOption
from cxc_eccv.hub.upload import plan_upload

CARD = """---
license: mit
configs:
- config_name: default
  data_files:
  - split: test
    path: labels.parquet
---
# Mine

The rule is majority.
"""

EVALUATE = """
import numpy as np
import cxc_eccv as ce
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings
from cxc_eccv.types.json_records import to_json
library = ce.Library("sample", labels=[given])
content, random = library.split("test"), np.random.default_rng(0)
sides = (Embeddings(ids, random.standard_normal((ids.size, 8))) for ids in (content.image_ids, content.caption_ids))
run = EmbeddingsRun(*sides)
report = ce.evaluate(run, "coco_5k", data_dir=library, sources=("coco", "mine"), progress=False, confidence=None)
told = {"scores": report.scores, "labels": to_json(report.provenance.labels)}
"""

LOAD = "import datasets; told = list(datasets.load_dataset(given, split='test'))"


@pytest.fixture
def project(tmp_path, sample_library):
    """A folder as annotate merge leaves it."""
    folder = tmp_path / "project"
    folder.mkdir()
    write_label_file(folder / "labels.parquet", sample_library, *random_pairs(sample_library))
    for name in ("rounds.jsonl", "answers.jsonl"):
        (folder / name).write_text('{"worker": "anna"}\n')
    (folder / "README.md").write_text(CARD)
    return folder


def test_pushed_labels_load_by_name_with_commit(hub, client, project):
    shown = client.command("push", project, "org/mine")
    assert shown.out.startswith("This is toy data: it was made from the embedded sample")
    assert "  labels.parquet\n" in shown.out
    assert "left out: answers.jsonl" in shown.out
    assert "Nothing was sent" in shown.out
    done = client.command("push", project, "org/mine", "--yes")
    assert "Load these labels with --labels org/mine" in done.out
    repository = hub.store.repositories["dataset", "org/mine"]
    assert set(repository.files()) - {".gitattributes"} == {"README.md", "labels.parquet"}
    assert repository.files()["labels.parquet"] == (project / "labels.parquet").read_bytes()
    local, loaded = (client.code(EVALUATE, str(place)) for place in (project, "org/mine"))
    assert (local.status, loaded.status) == (0, 0), loaded.err
    assert loaded.told["scores"] == local.told["scores"]
    facts = loaded.told["labels"]["files"]["mine"]
    commit = repository.branches["main"][-1].oid
    assert (facts["repository"], facts["revision"]) == ("org/mine", commit)
    assert facts["sha256"] == local.told["labels"]["files"]["mine"]["sha256"]
    plain = client.code(LOAD, "org/mine")
    assert plain.status == 0, plain.err
    assert plain.told == pq.read_table(project / "labels.parquet").to_pylist()


SAID = pa.list_(pa.struct([("person", pa.string()), ("answer", pa.string()), ("gain", pa.float64())]))

CARD_WITH_ANSWERS = CARD.replace(
    "---\n# Mine",
    """dataset_info:
- config_name: default
  description: sha256 0
  features:
  - {name: image_id, dtype: int64}
  - {name: caption_id, dtype: int64}
  - {name: gain, dtype: float64}
  - {name: positive, dtype: bool}
  - {name: answers, dtype: int32}
  - name: said
    list:
    - {name: person, dtype: string}
    - {name: answer, dtype: string}
    - {name: gain, dtype: float64}
---
# Mine

| field | type | meaning |
|---|---|---|
| `said` | list | each person's answer |

`said` has every accepted answer.""",
)


@pytest.fixture
def answered(project):
    """The project with the answers of two people about each pair, as annotate merge writes them."""
    table = pq.read_table(project / "labels.parquet")
    said = [[{"person": f"p{number}", "answer": '"yes"', "gain": 1.0} for number in (1, 2)]] * table.num_rows
    pq.write_table(table.append_column("said", pa.array(said, SAID)), project / "labels.parquet")
    (project / "README.md").write_text(CARD_WITH_ANSWERS)
    return project


def test_answers_are_named_and_asked_about(hub, client, answered):
    sentence = "labels.parquet has 400 answers of 2 people, pair by pair, called p1, p2."
    assert sentence in client.command("push", answered, "org/asked").out
    client.command("push", answered, "org/asked", "--yes", typed="n\n", status=1)
    assert ("dataset", "org/asked") not in hub.store.repositories
    client.command("push", answered, "org/asked", "--yes", typed="y\n")
    sent = hub.store.repositories["dataset", "org/asked"].files()
    assert sent["labels.parquet"] == (answered / "labels.parquet").read_bytes()
    with pytest.raises(InvalidOption, match=r"400 answers of 2 people.*answers=True or False"):
        plan_upload(answered, "org/asked").send()


def test_labels_load_alike_without_answers(hub, client, answered, tmp_path):
    client.command("push", answered, "org/all", "--with-answers", "--yes")
    client.command("push", answered, "org/none", "--without-answers", "--yes")
    sent = hub.store.repositories["dataset", "org/none"].files()
    assert b"p1" not in sent["labels.parquet"]
    assert "said" not in sent["README.md"].decode()
    table = pq.read_table(io.BytesIO(sent["labels.parquet"]))
    whole = pq.read_table(answered / "labels.parquet")
    assert table.equals(whole.drop_columns(["said"]), check_metadata=True)
    scores = [client.code(EVALUATE, name).told["scores"] for name in ("org/all", "org/none")]
    assert scores[0] == scores[1]
    assert client.code(LOAD, "org/none").told == table.to_pylist()
    assert client.code(LOAD, "org/all").told == whole.to_pylist()


def test_labels_of_another_edition_need_replace(hub, client, built, project, sample_library):
    data = {"edition": "official", "content": "0" * 64}
    official = project / "labels.parquet"
    sample = official.read_bytes()
    write_label_file(official, sample_library, *random_pairs(sample_library), data=data)
    hub.store.create("dataset", "org/theirs", {"labels.parquet": official.read_bytes()})
    official.write_bytes(sample)
    refused = " ".join(client.command("push", project, "org/theirs", "--yes", status=2).err.split())
    assert "its labels are of the edition official, and these are not" in refused
    client.command("push", built, "org/both", "--yes")
    assert "it is a dataset" in client.command("push", project, "org/both", "--yes", status=2).err
    client.command("push", project, "org/both", "--yes", "--replace")
    assert set(hub.store.repositories["dataset", "org/both"].files()) == {
        ".gitattributes",
        "README.md",
        "labels.parquet",
    }


def test_a_revision_that_is_named_stays(hub, client, project, sample_library):
    client.command("push", project, "org/twice", "--yes")
    repository = hub.store.repositories["dataset", "org/twice"]
    first = repository.branches["main"][-1].oid
    before = client.code(EVALUATE, "org/twice").told
    write_label_file(project / "labels.parquet", sample_library, *random_pairs(sample_library, seed=5), version="2.0.0")
    client.command("push", project, "org/twice", "--yes")
    assert client.code(EVALUATE, f"org/twice@{first}").told == before
    after = client.code(EVALUATE, "org/twice").told
    assert after["labels"]["files"]["mine"]["version"] == "2.0.0"
    assert after["labels"]["files"]["mine"]["revision"] == repository.branches["main"][-1].oid != first
    # What is there once is there without the Hub too.
    offline = "import os; os.environ['CXC_ECCV_OFFLINE'] = '1'\n"
    restore = "\ndel os.environ['CXC_ECCV_OFFLINE']"
    hub.requests.clear()
    assert client.code(offline + EVALUATE + restore, "org/twice").told == after
    assert not hub.requests


def test_output_holds_the_files_of_a_push(hub, client, project, tmp_path):
    shown = client.command("push", project, "org/mine", "--output", tmp_path / "local")
    assert "Nothing was sent" in shown.out
    assert not hub.requests
    client.command("push", project, "org/mine", "--yes")
    sent = hub.store.repositories["dataset", "org/mine"].files()
    for name in ("README.md", "labels.parquet"):
        assert (tmp_path / "local" / name).read_bytes() == sent[name]
    assert not (tmp_path / "local" / "answers.jsonl").exists()
    both = client.command("push", project, "org/mine", "--yes", "--output", tmp_path / "local", status=2)
    assert "leave out --output or --yes" in both.err


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("org/nothing", "labels org/nothing: there is no such file or folder, and no such dataset"),
        ("org/empty", "the dataset org/empty on the Hub holds no label file"),
        ("org/empty@nowhere", "labels org/empty@nowhere: the Hugging Face Hub did not deliver them"),
    ],
)
def test_missing_labels_on_the_hub_are_reported(hub, client, named, message):
    client.code("import huggingface_hub as h; h.HfApi().create_repo('org/empty', repo_type='dataset')")
    answer = client.code(EVALUATE, named)
    assert answer.error in ("SourceMissing", "DownloadFailed"), answer.err
    assert message in answer.message


def test_gains_are_read_back_from_the_hub(hub, client, project):
    """Labels under another file name need --replace, which removes the earlier file."""
    client.command("push", project, "org/gains", "--yes")
    gains = "ce.Library('sample', labels=[given]).split('test').labels('mine').table['gain'].to_pylist()"
    told = client.code(f"import cxc_eccv as ce; told = {gains}", "org/gains").told
    assert told == pq.read_table(project / "labels.parquet")["gain"].to_pylist()
    (project / "labels.parquet").rename(project / "test.parquet")
    refused = client.command("push", project, "org/gains", "--yes", status=2).err
    assert "this folder lacks labels.parquet" in refused
    client.command("push", project, "org/gains", "--yes", "--replace")
    assert "labels.parquet" not in hub.store.repositories["dataset", "org/gains"].files()
    assert client.code(EVALUATE, "org/gains").status == 0
