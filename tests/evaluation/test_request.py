"""The one object that every way to ask for an evaluation builds."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cxc_eccv as ce
from cxc_eccv import evaluation
from cxc_eccv.cli.app import app
from cxc_eccv.encoding.evaluate_model import ModelSides
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.evaluation import Fields, Request, make_plan
from cxc_eccv.runs import save_embeddings

PACKAGE = Path(ce.__file__).parent
NEW = [
    ("evaluation/request.py", '    tasks: str | Sequence[str] = "all"\n', "    emphasis: int = 1\n"),
    (
        "cli/evaluate.py",
        "    output: Annotated[\n",
        '    emphasis: Annotated[int, typer.Option(help="Emphasis of a query.")] = 1,\n',
    ),
    ("cli/evaluate.py", "        metrics=names(metrics),\n", "        emphasis=emphasis,\n"),
]
"""A file, the line before which a line is added, and that line."""

SHOW = """
import cxc_eccv.evaluation
def show(run, request, library):
    print("emphasis", request.emphasis)
    raise SystemExit(0)
cxc_eccv.evaluation.evaluate_request = show
from cxc_eccv.cli.app import main
main()
"""


def test_keywords_of_evaluate_are_the_fields():
    keywords = {name: kind.__forward_arg__ for name, kind in Fields.__annotations__.items()}
    assert keywords == {field.name: field.type for field in fields(Request) if field.name != "tasks"}


def test_evaluate_explains_every_field():
    explained = re.findall(r"^    (\w+): ", inspect.getdoc(ce.evaluate), re.MULTILINE)
    assert {field.name for field in fields(Request)} <= set(explained)


@pytest.mark.thorough
def test_option_is_field_parameter_and_keyword(tmp_path, make_run, sample_library):
    copy = tmp_path / "cxc_eccv"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, before, line in NEW:
        text = (copy / name).read_text(encoding="utf-8")
        assert text.count(before) == 1
        (copy / name).write_text(text.replace(before, line + before), encoding="utf-8")
    save_embeddings(tmp_path / "run.npz", make_run(sample_library))
    command = [sys.executable, "-c", SHOW, "--data-dir", "sample", "evaluate", "run.npz", "--emphasis", "3"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert (done.stdout, done.stderr) == ("emphasis 3\n", "")


def test_command_hands_every_field_to_the_request(tmp_path, make_run, sample_library, monkeypatch):
    keywords = {}

    def record(**values):
        keywords.update(values)
        raise InvalidOption("recorded")

    monkeypatch.setattr(evaluation, "Request", record)
    save_embeddings(tmp_path / "run.npz", make_run(sample_library))
    CliRunner().invoke(app, ["evaluate", str(tmp_path / "run.npz"), "--data-dir", "sample"])
    assert keywords.keys() == {field.name for field in fields(Request)} - {"name", "block_size"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": []}, "tasks is an empty list"),
        ({"metrics": []}, "metrics is an empty list"),
        ({"limit": 0}, "limit is 0"),
        ({"similarity": "l2"}, "unknown similarity 'l2'"),
        ({"split": "val"}, "unknown split 'val'"),
        ({"intervals": "jackknife"}, "unknown kind of intervals"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"bounds_depth": 5}, "bounds_depth needs bounds"),
        ({"name": ""}, "the model's name is ''"),
        ({"tasks": 7}, "tasks is 7, expected a name or a list of names"),
        ({"tasks": None}, "tasks is None, expected a name or a list of names"),
        ({"metrics": [7]}, "metrics is .7., expected a name or a list of names"),
        ({"sources": {"coco": 1}}, "sources is .*, expected a name or a list of names"),
        ({"per_query": "no"}, "per_query is 'no', expected True or False"),
        ({"allow_missing": "no"}, "allow_missing is 'no', expected True or False"),
        ({"bounds": 1}, "bounds is 1, expected True or False"),
        ({"confidence": "high"}, "confidence is 'high', expected a number"),
        ({"block_size": "8"}, "block_size is '8', expected a whole number"),
        ({"training_data": "web"}, "training data 'web': give a list of names"),
        ({"training_data": 7}, "training data 7: give a list of names"),
    ],
)
def test_a_wrong_option_is_refused_without_a_run(options, message):
    with pytest.raises((InvalidOption, UnknownName), match=message):
        Request(**options)


def test_a_plan_needs_no_run(sample_library):
    plan = make_plan(Request(tasks="cxc"), sample_library, ModelSides(("captions",), sample_library, "test"))
    assert [part.key for part in plan.parts] == ["cxc/t2t", "cxc/sts"]
    assert plan.skipped["cxc/i2t"] == "the run has no images"
