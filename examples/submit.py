"""Check a report as the leaderboard does, and show what a submission would propose.

    python examples/submit.py                                    # the embedded sample: refused, and why
    python examples/submit.py report/report.json                 # a report of the official data
    python examples/submit.py report/report.json --model YOUR_NAME/clip --dataset OWNER_NAME/cxc_eccv  # asks the Hub

Without a report it scores random vectors on the sample. Such a report is refused; the script shows the file that an
accepted one would add to the model's repository. It sends nothing: ``cxc-eccv submit ... --yes`` does.
"""

import argparse
from pathlib import Path

import numpy as np
from huggingface_hub import EvalResultEntry

import cxc_eccv as ce
from cxc_eccv.errors import ReportRefused
from cxc_eccv.hub import choose_benchmark, find_benchmark
from cxc_eccv.hub.checks import checked_report
from cxc_eccv.hub.leaderboard import leaderboard_tasks
from cxc_eccv.hub.submit import RESULTS, SubmitOptions, merge_results, plan_submission
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings


def main() -> None:
    """Check the report, then show the change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, nargs="?", help="report.json; without it one of the sample is made")
    parser.add_argument("--model", help="repository of the model on the Hub: owner/name")
    parser.add_argument("--dataset", default=find_benchmark(), help="repository of the benchmark: owner/name")
    options = parser.parse_args()
    dataset = options.dataset or "OWNER_NAME/cxc_eccv"
    path = options.report or sample_report(Path("sample_report.json"))
    try:
        checked_report(path)
    except ReportRefused as refused:
        print(f"refused: {refused}\n\nAccepted, {RESULTS} would hold:\n{proposed(path, dataset)}")
        return
    if options.model:
        print(plan_submission(path, options.model, choose_benchmark(options.dataset), SubmitOptions()))
    else:
        print(f"{RESULTS} would hold:\n{proposed(path, dataset)}")


def proposed(path: Path, dataset: str) -> str:
    """The results file for a benchmark that declares the main metrics, made without the Hub."""
    scores = Report.from_json(path.read_text(encoding="utf-8")).scores
    tasks = [task for task in leaderboard_tasks().values() if task.main and task.key in scores]
    return merge_results(None, [EvalResultEntry(dataset, task.task_id, scores[task.key]) for task in tasks])


def sample_report(path: Path) -> Path:
    """Write a report of random vectors."""
    library, random = ce.Library("sample"), np.random.default_rng(0)
    ids = library.split("test").images["image_id"].to_numpy(), library.split("test").captions["caption_id"].to_numpy()
    run = EmbeddingsRun(*(Embeddings(one, random.standard_normal((one.size, 16))) for one in ids))
    path.write_text(ce.evaluate(run, "eccv_caption", data_dir=library).to_json(), encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
