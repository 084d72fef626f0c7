"""A checkpoint that brings code of its own is refused, and its code is neither run nor asked about."""

import ast
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: pip install 'cxc_eccv[train]'")
tiny_models = pytest.importorskip("tiny_models", reason="torch is not installed")

import entailment_models  # noqa: E402 - after the skip
import open_clip_stand_in  # noqa: E402 - after the skip
import transformers  # noqa: E402 - after the skip

import cxc_eccv  # noqa: E402 - after the skip
from cxc_eccv.encoding import encode, load_model, text_encoder  # noqa: E402 - after the skip
from cxc_eccv.encoding.checkpoints import load_part  # noqa: E402 - after the skip
from cxc_eccv.errors import ModelError  # noqa: E402 - after the skip
from cxc_eccv.studies.baselines.dual_encoder.arguments import ModelArguments  # noqa: E402 - after the skip
from cxc_eccv.studies.baselines.dual_encoder.loading import starting_model  # noqa: E402 - after the skip
from cxc_eccv.studies.entailment.scoring import load_classifier  # noqa: E402 - after the skip

CODE = "import pathlib\npathlib.Path({mark!r}).touch()\n"
REFUSED = "brings Python code of its own, which is not run"


@pytest.fixture
def bring_code(tmp_path, monkeypatch):
    """Make a file of a folder name classes of a module beside it; the module must not run."""
    # Where nothing is said, transformers asks on the terminal; a test that is asked fails.
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked whether to trust the code"))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))

    def bring(path, classes, **entries):
        (path.parent / "theirs.py").write_text(CODE.format(mark=str(tmp_path / "was run")))
        content = json.loads(path.read_text()) if path.is_file() else {}
        names = {"tokenizer_class": "Theirs", "image_processor_type": "Theirs"}
        kept = {key: value for key, value in content.items() if key not in names}
        path.write_text(json.dumps(kept | entries | {"auto_map": classes}))

    yield bring
    assert not (tmp_path / "was run").exists()


TOKENIZER = "tokenizer_config.json", {"AutoTokenizer": ["theirs.Tokenizer", None]}


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


@pytest.mark.parametrize("below", ["", "visual_tokenizer"])
def test_the_tokenizers_of_a_classifier_are_refused(below, tmp_path, bring_code):
    path = tmp_path / "classifier"
    tiny_models.save(entailment_models.classifier("bert with blip"), path)
    bring_code(path / below / TOKENIZER[0], TOKENIZER[1])
    with pytest.raises(ModelError, match=REFUSED):
        load_classifier(path, device="cpu")


def test_the_tokenizer_inside_a_processor_is_refused(tmp_path, bring_code):
    # AutoProcessor does not hand on to a processor known by its config that no code is trusted.
    path = tiny_models.save(tiny_models.dual(), tmp_path / "dual")
    bring_code(path / TOKENIZER[0], TOKENIZER[1])
    with pytest.raises(ModelError, match=REFUSED):
        starting_model(ModelArguments(pretrained=str(path)), "both")


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


def test_checkpoints_are_opened_in_one_place():
    package = Path(cxc_eccv.__file__).parent
    calls = [
        (path.relative_to(package).as_posix(), ast.unparse(node))
        for path in sorted({*package.rglob("*.py")} - {package / "encoding" / "checkpoints.py"})
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in LOADERS)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LOADERS)
    ]
    assert calls == [
        ("studies/baselines/dual_encoder/model.py", "super().from_pretrained"),  # what the one place calls
    ]
