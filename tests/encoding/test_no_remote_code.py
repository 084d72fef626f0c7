"""A checkpoint that brings code of its own is refused, and its code is neither run nor asked about."""

import ast
import sys
from pathlib import Path

import open_clip_stand_in
import pytest
import tiny_models
import transformers
from foreign_code import REFUSED, TOKENIZER

import cxc_eccv
from cxc_eccv.encoding import encode, load_model, text_encoder
from cxc_eccv.encoding.checkpoints import load_part
from cxc_eccv.errors import ModelError


@pytest.fixture
def folder(tmp_path, bring_code):
    """A saved model whose config, tokenizer and image processor bring code."""
    path = tiny_models.save(tiny_models.dual(), tmp_path / "model")
    bring_code(path / "config.json", {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}, model_type="theirs")
    bring_code(path / TOKENIZER[0], TOKENIZER[1])
    bring_code(path / "preprocessor_config.json", {"AutoImageProcessor": "theirs.Processor"})
    return path


def test_models_are_refused(folder):
    for load in (lambda: encode(str(folder), captions=[(1, "a")]), lambda: text_encoder(str(folder))):
        with pytest.raises(ModelError, match=REFUSED):
            load()


@pytest.mark.parametrize("kind", ["AutoTokenizer", "AutoImageProcessor", "AutoConfig", "AutoModel"])
def test_parts_are_refused(folder, kind):
    with pytest.raises(ModelError, match=REFUSED):
        load_part(getattr(transformers, kind), str(folder))


def test_what_open_clip_loads_by_transformers_is_refused(folder, tmp_path, monkeypatch):
    """Its config names a tokenizer of transformers, and may say that its code is trusted."""
    monkeypatch.setitem(sys.modules, "open_clip", open_clip_stand_in)
    for options in ({}, {"trust_remote_code": True}):
        load = lambda name, options=options: transformers.AutoTokenizer.from_pretrained(folder, **options)  # noqa: E731
        monkeypatch.setattr(open_clip_stand_in, "get_tokenizer", load)
        with pytest.raises(ModelError, match=REFUSED):
            load_model("open_clip:Tiny-16/openai", device="cpu")


LOADERS = {
    "from_pretrained",
    "from_config",
    "SentenceTransformer",
    "CrossEncoder",
    "pipeline",
    "create_model",
    "create_model_and_transforms",
    "create_model_from_pretrained",
    "get_tokenizer",
    "get_class_from_dynamic_module",
    "load_from_hub",
}
"""Calls of transformers, sentence-transformers and open_clip that may run the code of a checkpoint."""


@pytest.mark.thorough
def test_checkpoints_are_opened_in_one_place():
    package = Path(cxc_eccv.__file__).parent
    calls = [
        (path.relative_to(package).as_posix(), ast.unparse(node))
        for path in sorted({*package.rglob("*.py")} - {package / "encoding" / "checkpoints.py"})
        if any(loader in (text := path.read_text(encoding="utf-8")) for loader in LOADERS)
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Attribute) and node.attr in LOADERS)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LOADERS)
    ]
    # What the one place calls, where the studies are there; also saved as a model's code, which runs without it.
    assert set(calls) <= {
        ("studies/baselines/dual_encoder/model.py", "super().from_pretrained"),
        ("studies/entailment/processing.py", "AutoImageProcessor.from_pretrained"),
        ("studies/entailment/processing.py", "AutoTokenizer.from_pretrained"),
    }
