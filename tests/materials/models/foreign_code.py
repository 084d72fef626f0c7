"""A checkpoint that brings code of its own, which must not run."""

import json

import pytest

CODE = "import pathlib\npathlib.Path({mark!r}).touch()\n"
REFUSED = "brings Python code of its own, which is not run"
TOKENIZER = "tokenizer_config.json", {"AutoTokenizer": ["theirs.Tokenizer", None]}


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
