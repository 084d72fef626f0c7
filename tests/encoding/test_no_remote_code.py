"""A checkpoint that brings code of its own is refused, and its code is neither run nor asked about."""

import json

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: pip install 'cxc_eccv[train]'")
tiny_models = pytest.importorskip("tiny_models", reason="torch is not installed")

from cxc_eccv.baselines.dual_encoder.loading import from_pretrained  # noqa: E402 - after the skip
from cxc_eccv.encoding import encode, text_encoder  # noqa: E402 - after the skip
from cxc_eccv.errors import ModelError  # noqa: E402 - after the skip

CODE = "import pathlib\npathlib.Path({mark!r}).touch()\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A saved model whose config, tokenizer and image processor name classes of a module beside it."""
    # Where nothing is said, transformers asks on the terminal; a test that is asked fails.
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked whether to trust the code"))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    path = tiny_models.save(tiny_models.dual(), tmp_path / "model")
    (path / "theirs.py").write_text(CODE.format(mark=str(tmp_path / "was run")))
    for name, classes in (
        ("config.json", {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["theirs.Tokenizer", None]}),
        ("preprocessor_config.json", {"AutoImageProcessor": "theirs.Processor"}),
    ):
        content = json.loads((path / name).read_text()) if (path / name).is_file() else {}
        kind = {"model_type": "theirs"} if name == "config.json" else {}
        names = {"tokenizer_class": "Theirs", "image_processor_type": "Theirs"}
        kept = {key: value for key, value in content.items() if key not in names}
        (path / name).write_text(json.dumps(kept | kind | {"auto_map": classes}))
    yield path
    assert not (tmp_path / "was run").exists()


def test_models_are_refused(folder):
    for load in (lambda: encode(str(folder), captions=[(1, "a")]), lambda: text_encoder(str(folder))):
        with pytest.raises(ModelError, match=r"trust_remote_code|custom code"):
            load()


@pytest.mark.parametrize("kind", ["AutoTokenizer", "AutoImageProcessor", "AutoConfig", "AutoModel"])
def test_parts_are_refused(folder, kind):
    import transformers

    with pytest.raises(ModelError):
        from_pretrained(getattr(transformers, kind), str(folder))
