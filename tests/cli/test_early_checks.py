"""What is wrong with paths, names and options is found before torch and transformers are imported."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from cxc_eccv.cli.app import main

RUN = """
import contextlib, functools, io, json, sys
from importlib.machinery import ModuleSpec

class Refused:
    def find_spec(name, *_):
        if name in ("torch", "transformers", "sentence_transformers"):
            return ModuleSpec(name, Refused)

    def create_module(spec):
        raise ModuleNotFoundError(f"imported {spec.name}", name=spec.name)

    def exec_module(module): ...

sys.meta_path.insert(0, Refused)
import typer.main
typer.main.get_command = functools.cache(typer.main.get_command)  # as in conftest.py
from cxc_eccv.cli.app import main
errors = []
for command in json.load(sys.stdin):
    with contextlib.redirect_stderr(io.StringIO()) as error, contextlib.redirect_stdout(io.StringIO()):
        try:
            main(command)
        except SystemExit as ended:
            errors.append([ended.code, error.getvalue()])
        except Exception as fault:
            errors.append([1, repr(fault)])
json.dump(errors, sys.stdout)
"""

MODEL = ("--model", "user/model")
EVALUATE = ("evaluate", *MODEL)
ENCODE = ("encode", *MODEL, "--output", "new.npz")
MINE = ("mine", "ridge.npz", "--classifier", "user/classifier", "--output", "weak.parquet", "--threshold", "0.9")
SCORE = ("entailment", "score", "cxc/test", "--model", "user/classifier")

WRONG = [
    ((*EVALUATE, "--images", "absent"), "absent is not a folder"),
    ((*EVALUATE, "--images", "none"), "0 of the 60 photographs found in none and the folders in it"),
    ((*EVALUATE, "--images", "none", "--limit", "9"), "Name those of the embedded sample with --images sample."),
    ((*ENCODE, "--images", "few"), "1 of the 60 photographs found in few"),
    ((*ENCODE, "--images", "few"), "or leave them out with --skip-bad-images."),
    ((*MINE[:1], *MODEL, *MINE[2:], "--images", "few"), "0 of the 60 photographs found in few"),
    ((*EVALUATE, "--images", "sample", "--tasks", "coco5k"), "did you mean 'coco_5k'"),
    ((*EVALUATE, "--images", "sample", "--metrics", "recal"), "unknown metric 'recal'"),
    ((*EVALUATE, "--split", "tset"), "did you mean 'test'"),
    ((*EVALUATE, "--images", "sample", "--limit", "0"), "limit is 0"),
    ((*EVALUATE, "--images", "sample", "--sources", "cxcc"), "did you mean 'cxc'"),
    ((*EVALUATE, "--images", "sample", "--intervals", "odd"), "odd"),
    ((*EVALUATE, "--images", "sample", "--labels", "absent.parquet"), "absent.parquet"),
    ((*EVALUATE, "--data-dir", "absent"), "'absent' is not a folder"),
    ((*EVALUATE, "--output", "file"), "file is a file. Name a folder"),
    ((*EVALUATE, "--output", "file/out"), "Not a directory"),
    ((*EVALUATE, "--output", "x" * 300), "File name too long"),
    (("demo", "--output", "file"), "file is a file. Name a folder"),
    (("compare", "old", "new", "--output", "file"), "file is a file. Name a folder"),
    (("sts", *MODEL, "--output", "file"), "file is a file. Name a folder"),
    (("build", "--output", "file"), "file is a file. Name a folder"),
    (("encode", *MODEL, "--output", "folder.npz"), "is a folder. Name a file"),
    (("evaluate", "--model", "./absent"), "./absent: no model there"),
    (("evaluate", "--model", "file"), "file is a file, but a model is a folder"),
    (("evaluate", "--model", "m.npz"), "or score the embeddings in it: cxc-eccv evaluate m.npz"),
    (("evaluate", "--model", "few"), "few: no model found: the folder has no config.json. Name the folder"),
    (("evaluate", "--model", "report"), "no model found: it is the folder of a report"),
    (("train", "dual-encoder", "--output-dir", "file"), "file is a file. Name a folder"),
    ((*ENCODE, "--images", "absent"), "absent is not a folder"),
    ((*ENCODE, "--split", "tset"), "did you mean 'test'"),
    ((*ENCODE, "--side", "image"), "did you mean 'images'"),
    ((*ENCODE, "--pooling", "max"), "pooling 'max'"),
    ((*ENCODE, "--dtype", "float8"), "dtype 'float8'"),
    ((*ENCODE, "--batch-size", "0"), "batch_size is 0"),
    ((*ENCODE, "--central-crop", "2"), "central_crop is 2"),
    ((*ENCODE, "--score", "itmm"), "unknown score 'itmm'"),
    ((*ENCODE, "--top-k", "0"), "top_k is 0"),
    ((*ENCODE, "--captions", "absent.csv"), "absent.csv"),
    ((*ENCODE, "--rerank", "absent.npz"), "absent.npz"),
    ((*ENCODE, "--data-dir", "absent"), "'absent' is not a folder"),
    (("encode", *MODEL, "--output", "new.txt"), "the name must end in"),
    (("encode", *MODEL, "--output", "absent/new.npz"), "there is no folder absent"),
    (MINE, "ridge.npz"),
    ((*MINE, "--precision", "0.9"), "give a threshold or a precision, not both"),
    ((*MINE, "--images", "absent"), "absent is not a folder"),
    ((*MINE, "--labelled", "absent.jsonl"), "absent.jsonl does not exist"),
    ((*MINE, "--split", "trian"), "did you mean 'train'"),
    ((*MINE, "--top-k", "0"), "top_k is 0"),
    ((*SCORE, "--images", "absent"), "absent is not a folder"),
    ((*SCORE, "--threshold", "3"), "threshold"),
    (("entailment", "score", "cxc/tset", "--model", "user/classifier"), "cxc/tset"),
    (("entailment", "score", "cxc/test", "--model", "./absent"), "./absent: no model there"),
    (("evaluate", "ridge.npz", "--judge", "user/classifier", "--images", "absent"), "absent is not a folder"),
    (("sts", *MODEL, "--tasks", "sts2030"), "sts2030"),
    (("query-corpus", *MODEL, "--collection", "coco8k"), "coco8k"),
    (("query-corpus", *MODEL, "--query-position", "first"), "query position 'first'"),
    (("query-corpus", *MODEL, "--summaries", "absent.csv"), "absent.csv"),
    (("query-corpus", *MODEL, "--summarizer", "user/t5", "--summaries", "file/kept.jsonl"), "file/kept.jsonl"),
    (("train", "dual-encoder", "--data-dir=absent"), "'absent' is not a folder"),
    (("train", "entailment-classifier", "--images", "absent"), "absent is not a folder"),
    (("explain", "absent.npz"), "absent.npz"),
    (("baseline", "image_features", *MODEL, "--images", "absent"), "absent"),
    (("baseline", "bow", "--output", "file"), "is a file. Name a folder"),
]


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """Exit status and messages of all these commands, in a process that cannot import torch."""
    folder = tmp_path_factory.mktemp("early")
    (folder / "file").touch()
    (folder / "folder.npz").mkdir()
    for name in ("few", "none", "report"):
        (folder / name).mkdir()
    (folder / "m.npz").write_bytes(b"PK\xff")
    (folder / "report" / "report.json").touch()
    (folder / "few" / "COCO_val2014_000000764118.jpg").touch()
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps([words for words, _ in WRONG]),
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "CXC_ECCV_DATA": "sample", "CXC_ECCV_OFFLINE": "1"},
    )
    return json.loads(done.stdout)


def of_study(words):
    """Whether a command is that of a study, or asks a judge."""
    return words[0] not in ("evaluate", "encode", "sts", "demo", "compare", "build") or "--judge" in words


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=[pytest.mark.studies] * of_study(words), id=" ".join(words))
        for place, (words, _) in enumerate(WRONG)
    ],
)
def test_a_wrong_command_costs_no_import_of_torch(errors, place):
    status, error = errors[place]
    if "ExtraMissing" in error and find_spec("accelerate") is None:
        pytest.skip("what encodes is not installed: pip install '.[train]'")
    assert (status, error.count("\n")) == (2, 1), error
    assert WRONG[place][1] in error


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("torch", ("evaluate", "--model", "user/model")),
        ("transformers", ("encode", "--model", "user/model", "--output", "new.npz")),
        ("torch", ("mine", "--model", "user/model", "--classifier", "user/one", "--output", "w.parquet")),
        ("open_clip", ("evaluate", "--model", "open_clip:ViT-B-32/openai")),
    ],
)
def test_missing_package_is_named_before_photographs(package, words, monkeypatch, capsys, tmp_path):
    for name in ("torch", "transformers", "accelerate"):  # installed or not
        monkeypatch.setitem(sys.modules, name, sys.modules[__name__])
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([*words, "--images", "absent", "--data-dir", "sample"])
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"{package}, which is not installed: " in error
    assert "absent" not in error
