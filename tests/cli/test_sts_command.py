"""``cxc-eccv sts`` on a tiny character GRU and small files."""

import json

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'cxc_eccv[train]'")
pytest.importorskip("transformers", reason="transformers is not installed: pip install 'cxc_eccv[train]'")

from typer.testing import CliRunner  # noqa: E402 - after the checks above

from cxc_eccv.baselines.char_gru.characters import character_tokenizer  # noqa: E402
from cxc_eccv.baselines.char_gru.configuration import CharGruConfig  # noqa: E402
from cxc_eccv.baselines.char_gru.model import CharGruModel  # noqa: E402
from cxc_eccv.cli import app  # noqa: E402
from cxc_eccv.errors import UnknownName  # noqa: E402
from cxc_eccv.sources.library import Library  # noqa: E402

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


def test_an_unknown_task_is_refused_before_the_model_is_loaded():
    result = run("--model", "no-such-model", "--tasks", "sts2011")
    assert isinstance(result.exception, UnknownName)
