"""``cxc-eccv sts`` on a tiny character GRU and small files."""

import json
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from cxc_eccv.cli.app import app
from cxc_eccv.cli.demo import TfIdf
from cxc_eccv.encoding import text_encoder
from cxc_eccv.errors import InvalidOption, MalformedSource, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.sts import evaluate_sts
from cxc_eccv.studies.baselines.char_gru.data import character_tokenizer
from cxc_eccv.studies.baselines.char_gru.model import CharGruConfig, CharGruEnsemble, CharGruModel

SENTENCES = ["a dog runs", "the cat sleeps", "two men", "a red bus", "one small child", "a dog ran"]


@pytest.fixture
def model(tmp_path):
    torch.manual_seed(0)
    tokens = character_tokenizer(SENTENCES)
    sizes = {"hidden_size": 4, "attention_size": 3, "image_feature_size": 0}
    CharGruModel(CharGruConfig(vocab_size=len(tokens), **sizes)).save_pretrained(tmp_path / "model")
    tokens.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def mirror(tmp_path):
    catalog = Library(tmp_path).catalog
    for subtask in ("fnwn", "headlines", "onwn"):
        path = tmp_path / "mirror" / catalog.entry(f"sts2013_{subtask}").path
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [f"{place % 6}\t{SENTENCES[place]}\t{SENTENCES[-1 - place // 2]}" for place in range(6)]
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path / "mirror"


def run(*arguments):
    return CliRunner().invoke(app, ["sts", *map(str, arguments)])


def test_a_table_and_two_files(model, mirror, tmp_path):
    options = ["--tasks", "sts2013", "--data-dir", mirror, "--allow-modified", "--output", tmp_path / "out"]
    result = run("--model", model, *options)
    assert result.exit_code == 0, result.output
    assert "STS 2013" in result.output
    rows = json.loads((tmp_path / "out" / "sts.json").read_text())["tasks"]["sts2013"]
    assert [row["name"] for row in rows] == ["fnwn", "headlines", "onwn", "mean", "weighted_mean", "all"]
    assert rows[-1]["pairs"] == 18
    assert "## STS 2013" in (tmp_path / "out" / "sts.md").read_text()


@pytest.mark.parametrize(("texts", "is_refused"), [(["a dog runs."], True), (["a dog runs.", "A dog, running"], False)])
def test_model_of_coco_tokens_alone_is_refused(mirror, tmp_path, texts, is_refused):
    tokens = character_tokenizer([*SENTENCES, *texts])
    config = CharGruConfig(vocab_size=len(tokens), hidden_size=4, attention_size=3, image_feature_size=0)
    ensemble = CharGruEnsemble.of([CharGruModel(config)])
    ensemble.config.coco_tokens = True
    ensemble.save_pretrained(tmp_path / "tokens")
    tokens.save_pretrained(tmp_path / "tokens")
    result = sts2013(mirror, "--model", tmp_path / "tokens")
    assert isinstance(result.exception, InvalidOption) == is_refused, result.output
    assert not is_refused or "nothing but COCO's captions as lower-case tokens" in str(result.exception)
    encoder = text_encoder(str(tmp_path / "tokens"))
    with pytest.raises(InvalidOption, match="--no-coco-tokens") if is_refused else nullcontext():
        evaluate_sts(encoder, Library(mirror, allow_modified=True), ["sts2013"])


def test_unknown_task_fails_before_the_model_loads():
    result = run("--model", "no-such-model", "--tasks", "sts2011")
    assert isinstance(result.exception, UnknownName)


def sts2013(mirror, *arguments):
    return run("--tasks", "sts2013", "--data-dir", mirror, "--allow-modified", *arguments)


def test_bag_of_words_reports_its_fitted_texts(mirror, tmp_path):
    result = sts2013(mirror, "--baseline", "bow", "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Modified data: not the official data\n")
    assert "Fitted on the distinct sentences of each task, without their scores: vocabulary" in result.output
    content = json.loads((tmp_path / "out" / "sts.json").read_text())
    assert content["provenance"]["model"] == "TF-IDF bag of words"
    assert content["provenance"]["fitted_on"].startswith("the distinct sentences of each task")
    assert "\nFitted on the distinct sentences" in (tmp_path / "out" / "sts.md").read_text()
    # By hand: cosines of TF-IDF over the six sentences.
    model = TfIdf.fit(list(dict.fromkeys(SENTENCES)))
    vectors = model.encode(SENTENCES).toarray()
    cosine = [vectors[place] @ vectors[-1 - place // 2] for place in range(6)]
    rows = {row["name"]: row for row in content["tasks"]["sts2013"]}
    assert rows["fnwn"]["pearson"] == pytest.approx(np.corrcoef(cosine, range(6))[0, 1], abs=1e-6)


def test_word_vectors_report_the_known_words(mirror, tmp_path):
    vectors = tmp_path / "glove.txt"
    vectors.write_text(
        "".join(f"{word} {place} 1 {place % 3}\n" for place, word in enumerate(["a", "dog", "cat", "two", "red"]))
    )
    with pytest.warns(UserWarning, match="1 of 6 texts have no word with a vector"):
        result = sts2013(mirror, "--baseline", "word_vectors", "--vectors", vectors)
    assert result.exit_code == 0, result.output
    assert "Fitted on nothing; 5 of the 14 words of the sentences have a vector." in result.output


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ([], InvalidOption, "give either --model, or --baseline"),
        (["--model", "m", "--baseline", "bow"], InvalidOption, "give either --model, or --baseline"),
        (["--model", "m", "--vectors", "v"], InvalidOption, "give either --model, or --baseline"),
        (["--baseline", "bow", "--vectors", "v"], InvalidOption, "reads no vectors"),
        (["--baseline", "word_vectors"], InvalidOption, "needs --vectors FILE"),
        (["--baseline", "bom"], UnknownName, "did you mean 'bow'"),
        (["--baseline", "word_vectors", "--vectors", "no.txt"], MalformedSource, "no.txt: found no file"),
    ],
)
def test_what_does_not_go_together_is_refused(mirror, words, error, message):
    result = sts2013(mirror, *words)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)
