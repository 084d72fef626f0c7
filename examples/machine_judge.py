"""From a model to a number with an interval, by a machine's guesses and a few people's answers, on the sample.

    python examples/machine_judge.py

Most pairs that a model retrieves were judged by nobody, and count as wrong. Here a weak judge guesses whether they
match: by the words that a caption shares with the image's other captions. People answer 90 pairs, drawn for the model's
R@1. Their answers correct the judge, and the interval says how far. The sample knows which pairs match: this stands in
for people, and shows at the end what they would have said about all pairs.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import cxc_eccv as ce
from cxc_eccv.cli.demo import bag_of_words, run_demo
from cxc_eccv.sources.readers import read_positives
from cxc_eccv.studies.annotation.exporting import Export, export_questions
from cxc_eccv.studies.annotation.merging import merge_labels
from cxc_eccv.studies.annotation.project import Project
from cxc_eccv.studies.annotation.project_files import Decision
from cxc_eccv.studies.annotation.proposing import ProposalOptions

TASK, METRIC, PAIRS = "coco_5k/t2i", "recall_at_1", 90


def main() -> None:
    """Train a model, guess, ask about drawn pairs, and print the estimate."""
    library = ce.Library("sample")
    guesses, matches = guess(library), true_matches(library)
    with tempfile.TemporaryDirectory() as folder:
        run_demo(Path(folder))
        run = ce.load_run(Path(folder) / "ridge.npz")
        project = Project.create(Path(folder) / "mine", library, name="mine")
        draw = {"strategy": "active", "number": f"{TASK}/{METRIC}", "budget": PAIRS}
        project = project.propose({"ridge": run}, ProposalOptions(judge=table_of(library, guesses), **draw))
        project = project.add_answers([answer(project, Path(folder), matches)]).project
        project = project.decide(Decision(workers={"ann": True}))  # sheets that await a look
        merge_labels(project)
        options = {"metrics": [METRIC], "data_dir": library, "bounds": True}
        report = ce.evaluate(run, TASK, judge=table_of(library, guesses), answers=project.folder, **options)
        truth = ce.evaluate(run, TASK, judge=table_of(library, matches), confidence=None, **options)
    (result,), (complete,) = report.results, truth.results
    bounds = result.bounds
    interval = f"[{bounds.estimate_low:.1%}, {bounds.estimate_high:.1%}]"
    print(f"R@1 by the original captions   {result.value:.1%}")
    print(f"as the judge alone expects it  {bounds.expected:.1%}")
    print(f"by the judge and {PAIRS} answers   {bounds.estimate:.1%} {interval}")
    print(f"by answers to all pairs        {complete.bounds.expected:.1%}")


def guess(library: ce.Library) -> NDArray[np.float64]:
    """(images, captions) cosine of each caption with the nearest other caption of each image."""
    content = library.split("test")
    texts = content.captions["text"].to_pylist()
    vocabulary = {word: place for place, word in enumerate(sorted({w for text in texts for w in text.lower().split()}))}
    vectors = bag_of_words(texts, vocabulary)
    likeness = vectors @ vectors.T
    np.fill_diagonal(likeness, 0)
    own = content.image_ids[:, None] == content.caption_image_ids
    return np.stack([likeness[captions].max(axis=0) for captions in own]).clip(0, 1)


def true_matches(library: ce.Library) -> NDArray[np.float64]:
    """(images, captions) 1 where the sample says that they match."""
    content, table = library.split("test"), library.read("truth", read_positives)
    true = set(zip(table["query_id"].to_pylist(), table["item_id"].to_pylist(), strict=True))
    return np.array([[float((i, c) in true) for c in content.caption_ids.tolist()] for i in content.image_ids.tolist()])


def table_of(library: ce.Library, probabilities: NDArray[np.float64]) -> pa.Table:
    """A judge's answers, as a table."""
    content = library.split("test")
    images, captions = np.meshgrid(content.image_ids, content.caption_ids, indexing="ij")
    return pa.table({"image_id": images.ravel(), "caption_id": captions.ravel(), "probability": probabilities.ravel()})


def answer(project: Project, folder: Path, matches: NDArray[np.float64]) -> Path:
    """The file of somebody who answers all questions rightly."""
    content = project.library.split("test")
    (questions, *_) = export_questions(project, folder / "asked", Export("jsonl", images="images/{file_name}"))
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        pair = content.image_ids == row["image_id"], content.caption_ids == row["caption_id"]
        row |= {"worker": "ann", "answer": "yes" if matches[np.ix_(*pair)].item() else "no"}
    path = folder / "ann.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
