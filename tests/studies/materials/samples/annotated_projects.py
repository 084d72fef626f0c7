"""Small annotation projects on the sample: three noisy models, and people who know the truth or do not."""

import json

import numpy as np
import pyarrow as pa
import pytest

from cxc_eccv.cli.app import main
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.studies.annotation.exporting import Export, export_questions
from cxc_eccv.types import Embeddings


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Run ``cxc-eccv annotate`` in an empty folder, with the sample as the data; gives what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CXC_ECCV_DATA", "sample")
    monkeypatch.setenv("COLUMNS", "1000")

    def run(*arguments, status=0):
        with pytest.raises(SystemExit) as ended:
            main(["annotate", *map(str, arguments)] if arguments[0] != "evaluate" else list(map(str, arguments)))
        shown = capsys.readouterr()
        assert (ended.value.code or 0) == status, shown.err
        return shown.err if status else shown.out

    return run


def noisy_run(library, seed, split="test", width=16):
    """Vectors of images, and of captions near that of their own image; another seed is another model."""
    content = library.split(split)
    random = np.random.default_rng(seed)
    images = np.random.default_rng(99).standard_normal((content.image_ids.size, width))
    own = np.searchsorted(content.image_ids, content.caption_image_ids, sorter=(order := np.argsort(content.image_ids)))
    captions = images[order[own]] + random.standard_normal((content.caption_ids.size, width))
    sides = Embeddings(content.image_ids, images), Embeddings(content.caption_ids, captions)
    return EmbeddingsRun(*sides, model=f"model-{seed}")


def save_runs(folder, library, seeds=(0, 1, 2), split="test"):
    """Files of several models."""
    paths = [folder / f"model-{seed}.npz" for seed in seeds]
    for seed, path in zip(seeds, paths, strict=True):
        save_embeddings(path, noisy_run(library, seed, split))
    return paths


def write_answers(path, project, worker, says, *, number=None, sheets=None, changes=None):
    """A file of JSON lines as a person fills it in; ``says`` gives the answer to a question."""
    numbers = project.rounds[-1 if number is None else number - 1].numbers if sheets is None else sheets
    (questions, _) = export_questions(
        project, path.parent / "asked", Export("jsonl", images="x/{file_name}", sheets=numbers)
    )
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row |= {"worker": worker, "answer": says(row["image_id"], row["caption_id"]), "seconds": 3.5} | (changes or {})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def knows(project):
    """Somebody who answers known pairs rightly, and calls every third candidate a match."""
    roles = {
        (question.image_id, question.caption_id): question.role
        for own in project.rounds
        for sheet in own.sheets
        for question in sheet
    }

    def says(image_id, caption_id):
        role = roles[image_id, caption_id]
        match = role == "known positive" or (role == "candidate" and (image_id + caption_id) % 3 == 0)
        return "yes" if match else "no"

    return says


def judge_all(library, draw):
    """Probabilities of all pairs of the test split; ``draw`` gives as many as it is asked for."""
    content = library.split("test")
    images, captions = np.meshgrid(content.image_ids, content.caption_ids, indexing="ij")
    chances = draw(images.size)
    return pa.table({"image_id": images.ravel(), "caption_id": captions.ravel(), "probability": chances})


def page_data(page):
    """What the page of a questionnaire, or a file of it, holds."""
    text = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if 'id="data"' in line]
    return json.loads(line.partition(">")[2].rpartition("</script>")[0])


def pairs_of(pairs):
    """Image id and caption id of the rows of a table, or of questions."""
    if hasattr(pairs, "to_pylist"):
        return {(row["image_id"], row["caption_id"]) for row in pairs.to_pylist()}
    return {(own.image_id, own.caption_id) for own in pairs}


def content_of(folder):
    """Every file of a folder by its path, hidden ones included."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
