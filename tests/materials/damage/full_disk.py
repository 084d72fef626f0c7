"""A disk that is full, and the one message of a command that writes to it."""

import contextlib
import re
import resource

import pytest

from cxc_eccv.cli.app import main


@contextlib.contextmanager
def files_of_at_most(size):
    """What a full disk does, in this process alone: no file grows beyond so many bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def status(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


@pytest.fixture
def told(monkeypatch, capsys):
    """The one message of a command whose files grow to at most so many bytes."""
    monkeypatch.setattr("warnings.showwarning", None)

    def run(size, *arguments):
        capsys.readouterr()
        with files_of_at_most(size):
            ended = status(*map(str, arguments))
        err = capsys.readouterr().err
        assert ended == 2, err
        assert "Traceback" not in err
        assert err.count("cxc-eccv: ") == 1, err
        line = err[err.index("cxc-eccv: ") :].strip()
        found = re.fullmatch(r"cxc-eccv: (.+?): .*[Ff]ile too large", line)
        assert found, line
        return found[1]

    return run
