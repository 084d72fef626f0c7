"""Commands on the embedded sample, run in this process."""

import pytest

from cxc_eccv.cli.app import main


@pytest.fixture
def command(capsys, monkeypatch):
    """Runs a command on the sample, on a terminal of 80 columns: exit status, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words), "--data-dir", "sample"])
        shown = capsys.readouterr()
        return ended.value.code or 0, shown.out, shown.err

    return run
