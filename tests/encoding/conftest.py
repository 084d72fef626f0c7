"""Saved models, and the command line that encodes with them; all tests need the train extra."""

from importlib.util import find_spec

import pytest
from foreign_code import bring_code

from cxc_eccv.cli.app import main

__all__ = ["bring_code"]

HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers"))
collect_ignore_glob = [] if HAS_TRAIN else ["test_*"]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Folders of saved models by their names, made once."""
    import tiny_models

    folder = tmp_path_factory.mktemp("models")
    made = {}

    def save(name):
        if name not in made:
            made[name] = str(tiny_models.save(getattr(tiny_models, name)(), folder / name))
        return made[name]

    return save


@pytest.fixture
def run_on_sample(monkeypatch, capsys):
    """What a command on the sample prints; it must end with this exit status."""

    def run(*words, status=0):
        monkeypatch.setattr("warnings.showwarning", None)
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words), "--data-dir", "sample"])
        printed = capsys.readouterr()
        assert ended.value.code == status, printed.err
        return printed

    return run
