"""Run in a copy of the repository with the files of docs/contributing.md: finds what they add, wherever it shows.

    python tests/docs/added_declarations.py FOLDER

FOLDER is for what it makes. Prints what it found, as JSON; what is asked of it is in test_contributing.py.
"""

import json
import os
import shutil
import sys
import warnings
from pathlib import Path

from typer.testing import CliRunner

from cxc_eccv.sources.download import mirror_folder

FOLDER = Path(sys.argv[1]) if __name__ == "__main__" else Path()


def command(*words):
    from cxc_eccv.cli.app import app

    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def reports():
    """A report of everything that was added: its console text, page, scores and examples."""
    import numpy as np
    import pyarrow.parquet as pq

    from cxc_eccv.runs import save_embeddings
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.baselines.untrained.random import draw_run

    save_embeddings(FOLDER / "run.npz", draw_run(Library("sample").split()))
    asked = ("--tasks", "uncontested,coco_5k", "--metrics", "found_at_r,capped_rank_at_k,recall_at_k")
    options = ("--data-dir", "sample", "--intervals", "none", "--output", str(FOLDER / "out"))
    console = command("evaluate", str(FOLDER / "run.npz"), *asked, *options)
    examples = pq.read_table(FOLDER / "out" / "examples.parquet")
    return {
        "console": console,
        "page": (FOLDER / "out" / "report.md").read_text(),
        "html": (FOLDER / "out" / "report.html").read_text(),
        "scores": json.loads((FOLDER / "out" / "report.json").read_text())["scores"],
        "doubts": json.loads((FOLDER / "out" / "report.json").read_text())["doubts"],
        "examples": examples.column_names,
        "said": int(np.count_nonzero(examples["same_words"].to_numpy(zero_copy_only=False) == True)),  # noqa: E712
    }


def option():
    """The low end of an interval with and without the new option, and where two reports have it."""
    from cxc_eccv.evaluation import evaluate
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.baselines.untrained.random import draw_run

    library = Library("sample")
    run, asked = draw_run(library.split()), {"tasks": "coco_5k", "metrics": "median_rank", "data_dir": library}
    plain, changed = evaluate(run, **asked), evaluate(run, **asked, draws=50)
    output = FOLDER / "drawn"
    words = ("--tasks", "coco_5k", "--data-dir", "sample", "--output", str(output), "--draws", "50")
    command("evaluate", str(FOLDER / "run.npz"), *words)
    return {
        "low": changed.results[0].low,
        "low by default": plain.results[0].low,
        "recorded": dict(changed.provenance.options),
        "in the file": json.loads((output / "report.json").read_text())["provenance"]["options"],
    }


def built():
    """Rules and groups of the config ``retrieval``, and the card of a folder with the new config."""
    from cxc_eccv.builders.dataset_config import dataset_configs
    from cxc_eccv.builders.folder_writing import build_folder

    wanted = ["retrieval", "lengths"]
    build_folder(FOLDER / "data", configs=wanted, splits=["test"], data_dir="sample", progress=False)
    import pyarrow.parquet as pq

    rows = pq.read_table(FOLDER / "data" / "retrieval" / "test-00000-of-00001.parquet").to_pylist()
    rules = {rule for row in rows for positive in row["positives"] for rule in positive["rules"]}
    return {
        "card": (FOLDER / "data" / "README.md").read_text(),
        "rules": sorted(rules),
        "groups": dataset_configs()["retrieval"].sources,
    }


def labelled_pairs():
    """Pairs of the parts of the new corpus, and what the guard leaves out of them."""
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.entailment.training_data import load_training_data

    parts = ["first_captions/val", "first_captions/test"]
    data = load_training_data(Library("sample"), parts, allow_test_data=True)
    guarded = load_training_data(Library("sample"), parts[:1])
    return [data.provenance["pairs"], data.provenance["positives"], guarded.provenance["pairs"]]


def further_labels():
    """Scores of the album, which has the sample's images, and the numbers of positives with and without a table."""
    from cxc_eccv.evaluation import evaluate
    from cxc_eccv.judgments.merging import merged_qrels
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.baselines.untrained.random import draw_run

    mirror = Path(shutil.copytree(mirror_folder("sample"), FOLDER / "mirror"))
    for name in ("album", "verified"):
        (mirror / name).mkdir()
    shutil.copy(mirror / "coco" / "dataset_coco.json", mirror / "album" / "dataset_album.json")
    split = Library("sample").split("test")
    rows = f"{split.image_ids[0]},{split.caption_ids[7]},1\n{split.image_ids[0]},{split.caption_ids[8]},0\n"
    (mirror / "verified" / "pairs.csv").write_text(f"image_id,caption_id,positive\n{rows}")
    library = Library(mirror)
    scores = evaluate(draw_run(library.split()), ["album", "coco_5k", "verified"], data_dir=library).scores
    judged = [merged_qrels(library.split("test"), "i2t", sources=names) for names in (["coco"], ["coco", "verified"])]
    return {"scores": scores, "positives": [int(each.indices.size) for each in judged]}


def main():
    os.environ.pop("CXC_ECCV_DATA", None)
    warnings.simplefilter("ignore")
    found = {"list": command("list", "--data-dir", "sample"), **reports(), **built()}
    found["option"] = option()
    found["pairs"] = labelled_pairs()
    found["baseline"] = command("baseline", "letters", "--data-dir", "sample")
    found["further"] = further_labels()
    print("FOUND" + json.dumps(found))


if __name__ == "__main__":
    main()
