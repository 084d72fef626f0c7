"""Shell lines of the documentation: run where they can be, excepted by name where they cannot."""

import contextlib
import functools
import io
import json
import os
import random
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pages import ROOT

from cxc_eccv.hub import NAME_DATASET

NOT_RUN = {
    "python3 -m venv": "installs",
    "source .venv": "changes the shell",
    ".venv/bin/pip install": "installs",
    "pip install": "installs",
    "export ": "sets what the workplace has set",
    "python examples/train_pytorch.py": "is a block of docs/training.md, as test_examples.py holds",
    "python examples/rank_on_ray.py": "needs Ray; test_ray_examples.py runs it on two workers",
    "python examples/encode_on_ray.py": "likewise",
    "python tools/": "changes or checks the repository itself; tools/check.py runs it",
    ".venv/bin/python tools/": "changes or checks the repository itself",
    "pytest": "runs the tests",
    "mkdocs": "builds the site; test_site.py does",
    "cxc-eccv images": "downloads photographs; tests/cli/test_images.py does from a local server",
    "python -m cxc_eccv.integrations.mteb_command": "loads a model by name; tests/integrations/test_mteb.py runs it",
    "jupyter": "opens a browser; test_examples.py runs the notebook",
    "torchrun": "starts processes; tests/encoding/test_processes.py does",
    "hf auth login": "asks for a token",
    "hf upload evaleval/": "opens a pull request",
    "cd logs": "leaves the folder",
    "python -m every_eval_ever": "needs Python 3.12; tests/hub/test_every_eval_ever.py runs it there",
    "cxc-eccv encode --model jinaai/": "runs code of the Hub; tests/encoding/test_model_options.py runs such",
    "cxc-eccv encode --model intfloat/": "has prompts of its own; likewise",
    "cxc-eccv evaluate clip.npz --tasks entailment --judge my-": "needs a classifier; test_commands.py runs it",
    "cxc-eccv evaluate clip.npz --tasks entailment --judge answered": "needs answers; test_judge.py gives some",
    "cxc-eccv query-corpus": "needs vectors of a text model; test_query_corpus_command.py runs it",
    "pip show": "shows what is installed",
    "cxc-eccv push exported/": "needs what tools/export_metric.py writes; tests/hub/test_load_back.py pushes it",
    "python -m spacy download": "downloads",
    "python -m nltk.downloader": "downloads",
    "python examples/judge_with": "asks a model; test_judge_examples.py has one",
    "cxc-eccv build --output adversarial_data": "needs a tagger; test_config.py builds it",
    "cxc-eccv mine": "needs a trained classifier; tests/studies/entailment/test_commands.py runs it",
    "cxc-eccv entailment score": "likewise",
    "cxc-eccv entailment score-answers": "needs a person's answers; entailment/test_commands.py gives some",
    "cxc-eccv entailment mean": "averages two reports, of COCO and of Flickr30k; test_mean.py does",
    "cxc-eccv build --output mined_data": "needs a file that mine wrote; likewise",
    "cxc-eccv explain": "needs WordNet, which the sample lacks; tests/studies/explain/test_explain_command.py runs it",
    "cxc-eccv rate-failures": "needs what explain wrote, and answers; test_rate_failures.py runs it",
    "cxc-eccv label-quality clip.npz": "needs an answered project; label_quality/test_appraisal.py has one",
    **{
        f"cxc-eccv annotate {step} doubts": "takes one step after the other, as docs/annotation.md does"
        for step in ("propose", "export", "import", "undo", "check", "merge", "report")
    },
    "cxc-eccv annotate propose recall clip.npz": "needs a judge; examples/machine_judge.py has one",
    "cxc-eccv evaluate --model MODEL": "names no model; tests/studies/annotation/test_estimates.py runs it",
    "export CXC_ECCV_DATA": "the tests set it",
    "python tools/conformance": "runs other libraries for minutes; tests/tools/test_conformance.py runs a small kit",
    "cxc-eccv sts": "reads SemEval's files, which the sample lacks; tests/cli/test_sts_command.py runs it",
}
"""Start of a command to the reason why it is not run."""

ON_OFFICIAL_DATA = ("cxc-eccv explain",)
"""Start of a command that is run on the official data all the same: what the sample lacks is there."""

NEEDS_A_MODEL = {"--model", "my-classifier"}
"""Words of commands that are left out where a page runs without models."""

OFFICIAL = {"submit", "--published"}
"""What takes results of the official data alone: on the embedded sample it refuses them, and names the edition.

Where a page names no benchmark, as after its owner set one, ``submit`` asks for it first.
"""

ONE_EPOCH = {
    "dual-encoder": ["--num-train-epochs", "1", "--per-device-train-batch-size", "30"],  # the sample has 60 images
    "entailment-classifier": ["--num-train-epochs", "1"],
}
trained = set()
"""Commands that trained a model: a page that repeats one of another page does not train again."""


def run_lines(text, hub, models=True):
    """Run every command of a shell block; gives what they print. ``hub`` makes the local Hub where one is needed."""
    lines = text.replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in _parts(line)]
    return "".join(_run(part, hub) for part in parts if models or not _needs_a_model(part))


def _needs_a_model(words):
    return words[0] == "cxc-eccv" and bool(NEEDS_A_MODEL & set(words))


def _parts(line):
    """The commands of a line that are joined by ``&&``, as lists of words."""
    words = shlex.split(line, comments=True)
    parts = [[]]
    for word in words:
        parts.append([]) if word == "&&" else parts[-1].append(word)
    return [part for part in parts if part]


def _run(words, hub):
    environment = {}
    while "=" in words[0] and words[0].partition("=")[0].isupper():
        name, _, environment[name] = words.pop(0).partition("=")
    line = " ".join(words)
    for start, stand_in in STAND_INS.items():
        if line.startswith(start):
            stand_in(words)
    if line.startswith(tuple(NOT_RUN)) and not (_is_official() and line.startswith(ON_OFFICIAL_DATA)):
        return ""
    words = [path for word in words for path in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]
    if words[1:2] == ["train"]:
        if tuple(words) in trained:
            return ""
        trained.add(tuple(words))
        words = [*words, *ONE_EPOCH.get(words[2], [])]
    if words[0] in ("cxc-eccv", ".venv/bin/cxc-eccv"):
        if OFFICIAL & set(words) and not _is_official():
            return _refused(words, "edition is 'sample'", "edition 'sample'", NAME_DATASET)
        on_hub = "push" in words[1:3] or "pull" in words[1:3]
        return hub().command(words[1:]) if on_hub else _command_line(words, environment)
    if words[0] == "python" and words[1].startswith("examples/"):
        return run_example(*words[1:])
    raise AssertionError(f"no test knows how to run {' '.join(words)!r}")


def _is_official():
    return os.environ["CXC_ECCV_DATA"] != "sample"


def _make_room(words):
    """Take away the labels that other pages find: the page makes a project of this name."""
    folder = Path(words[3])
    if not (folder / "rounds.jsonl").exists():
        shutil.rmtree(folder, ignore_errors=True)


def _guess(words):
    """Probabilities for the pairs of a file, as a script with a model writes them."""
    pairs = pq.read_table(words[2], columns=["image_id", "caption_id"]).to_pylist()
    draws = random.Random(0)
    lines = (json.dumps(pair | {"probability": draws.random() ** 3}) + "\n" for pair in pairs)
    Path("judge.jsonl").write_text("".join(lines))


def _answer(words):
    """The files that people send back: all know the labels and find a tenth of the rest to match; Cleo guesses."""
    from cxc_eccv.judgments.merging import merged_qrels
    from cxc_eccv.sources.library import Library

    project, *files = words[3:]
    options = ["--format", "jsonl", "--images", "images/{file_name}", "--output", "questions"]
    _command_line(["cxc-eccv", "annotate", "export", project, *options], {})
    questions = [json.loads(line) for line in Path("questions/questions.jsonl").read_text().splitlines()]
    labels = merged_qrels(Library().split("test"), "i2t")
    images = labels.query_ids[labels.rows].tolist()
    positives = set(zip(images, labels.gallery_ids[labels.indices].tolist(), strict=True))
    for file in files:
        draws = random.Random(file)
        lines = []
        for question in questions:
            known = (question["image_id"], question["caption_id"]) in positives
            match = known or random.Random(question["pair_id"]).random() < 0.1
            answer = draws.random() < 0.5 if file == "cleo.jsonl" else match
            worker = file.removesuffix(".jsonl")
            lines.append(json.dumps(question | {"worker": worker, "answer": "yes" if answer else "no"}) + "\n")
        Path(file).write_text("".join(lines))


STAND_INS = {
    "cxc-eccv annotate propose pilot": _make_room,
    "cxc-eccv annotate import pilot": _answer,
    "cxc-eccv annotate import drawn": _answer,
    "python examples/judge_with": _guess,
}
"""Start of a command to what people or a model do before it ends."""

KEPT = "EXAMPLES_KEPT"
"""Environment variable with the folder in which the processes of a test run keep what examples print."""


@functools.cache
def run_example(script, *arguments):
    """What a script of ``examples`` prints, in a process and a folder of its own; each is run once."""
    from cxc_eccv.writing import locked

    kept = Path(os.environ[KEPT]) / "_".join([Path(script).name, *arguments])
    with locked(kept, 600):
        if not kept.exists():
            kept.write_text(_run_script(script, *arguments), encoding="utf-8")
    return kept.read_text(encoding="utf-8")


IN_A_PROCESS = ("examples/add_a_metric.py", "examples/submit.py")
"""Scripts that change what a process has registered, or end it."""


def _run_script(script, *arguments):
    run = _run_in_a_process if script in IN_A_PROCESS else _run_here
    with tempfile.TemporaryDirectory() as folder:
        return run(folder, str(ROOT / script), *arguments)


def _run_in_a_process(folder, *command):
    environment = {name: value for name, value in os.environ.items() if name != "CXC_ECCV_DATA"}
    environment |= {"HF_HOME": folder, "HF_HUB_OFFLINE": "1", "CXC_ECCV_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, env=environment, cwd=folder
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def _run_here(folder, *command):
    """In this process, which has imported what takes longest."""
    out = io.StringIO()
    settings = {"CXC_ECCV_DATA": "sample", "CXC_ECCV_OFFLINE": "1"}
    with contextlib.redirect_stdout(out), contextlib.chdir(folder), _settings([*command], settings):
        runpy.run_path(command[0], run_name="__main__")
    return out.getvalue()


def _command_line(words, environment):
    """Run in this process; gives what is printed, and fails on an exit status other than 0."""
    status, out, err = _status(words, environment)
    assert status == 0, f"{' '.join(words)}: exit status {status}\n{err}"
    return out


def _refused(words, *reasons):
    """Run what is refused for one of the reasons, and for nothing else."""
    status, _, err = _status(words, {})
    assert status == 2, f"{' '.join(words)}: exit status {status}\n{err}"
    assert any(reason in " ".join(err.split()) for reason in reasons), err
    return ""


def _status(words, environment):
    """Exit status, and what is printed to standard output and standard error."""
    from cxc_eccv.cli.app import main

    out = io.StringIO()
    err = io.StringIO()
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _settings(words, environment):
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    return status, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def _settings(words, environment):
    """``sys.argv``, environment and warnings of a command; all as before after it."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("default")
        patch.setattr(sys, "argv", words)
        patch.setattr(sys, "path", [str(Path(words[0]).parent), *sys.path])
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


class LocalHub:
    """Runs commands that talk to the Hub, in a process that knows only the local one."""

    def __init__(self, client):
        self.client = client

    def command(self, words):
        settings = {name: value for name, value in os.environ.items() if name.startswith("CXC_ECCV")}
        return self.client.command(*words, folder=Path.cwd(), settings=settings).out
