"""``cxc-eccv query-corpus`` on a file of embeddings: its table, its files, and what it refuses."""

import json
import re
import sys

import numpy as np
import pytest

from cxc_eccv.cli import main
from cxc_eccv.explain.query_corpus import collect_captions, evaluate_query_corpus
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.types import Embeddings


@pytest.fixture
def command(monkeypatch, capsys):
    """Exit status and output of the command on the sample, on a terminal of 80 columns."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["cxc-eccv", "query-corpus", *map(str, words), "--data-dir", "sample"])
        monkeypatch.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, capsys.readouterr()

    return run


@pytest.fixture
def file(make_run, sample_library, tmp_path):
    run = make_run(sample_library)
    save_embeddings(tmp_path / "text.npz", EmbeddingsRun(None, run.captions, model="a text model"))
    return tmp_path / "text.npz"


def test_the_numbers_of_the_function(command, file, sample_library, make_run, tmp_path):
    status, out = command(file, "--query-position", "all", "--output", tmp_path / "out")
    assert status == 0, out.err
    captions = collect_captions(sample_library, "coco")
    vectors = make_run(sample_library).captions.vectors
    options = {"collection": "coco", "query_position": "all"}
    expected = evaluate_query_corpus(captions, vectors, sample_library, **options)
    content = json.loads((tmp_path / "out" / "query_corpus.json").read_text())
    assert content["schema"] == 1
    assert content["scores"] == expected.scores
    assert len(content["scores"]) == 6 * 8
    facts = content["provenance"]
    assert facts["model"] == "a text model"
    assert facts["run"]["captions"]["count"] == 300
    assert facts["data"]["files"]
    assert facts["command"].startswith("cxc-eccv query-corpus text.npz --query-position all")
    assert "coco: a text model" in out.out
    assert "query all" in (tmp_path / "out" / "query_corpus.md").read_text()
    assert "R@10" in out.out


def test_one_position_has_intervals_beside_it(command, file):
    status, out = command(file)
    assert status == 0, out.err
    line = next(line for line in out.out.splitlines() if line.strip().startswith("R@10"))
    assert line.count("[") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to rank: name a file with embeddings of the captions, or a model with --model"),
        (("FILE", "--model", "bert"), "is encoded already: give one of the two"),
        (("FILE", "--pooling", "cls"), "--pooling: for --model alone"),
        (("FILE", "--summarizer", "t5"), "--summarizer: for --model alone, as .* holds vectors of captions"),
        (("FILE", "--collection", "flickr9k"), "UnknownName: .*did you mean 'flickr8k'"),
        (("FILE", "--collection", "flickr8k"), "flickr8k"),
        (("FILE", "--query-position", "7"), "no image has a caption at position 7"),
        (("FILE", "--query-position", "first"), "query position 'first': give a number from 0, or all"),
        (("FILE", "--split", "val"), "lacks 300 of 300 captions"),
        (("IMAGES",), "holds no captions; a query and what it searches are captions"),
        (("--model", "bert", "--summarizer", "t5", "--normalise"), "--normalise is for the mean of vectors"),
    ],
)
def test_what_does_not_fit_is_one_message(words, message, command, file, tmp_path):
    save_embeddings(tmp_path / "images.npz", EmbeddingsRun(Embeddings([1], np.ones((1, 2))), None))
    places = {"FILE": file, "IMAGES": tmp_path / "images.npz"}
    status, out = command(*(places.get(word, word) for word in words))
    assert status == 2
    assert out.out == ""
    assert re.search(message, out.err), out.err
