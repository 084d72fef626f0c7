"""The command line within this process: to start one takes longer than most commands, which test_streams.py does."""

import contextlib
import io
import os
import warnings

import pytest

from cxc_eccv.cli.app import main


def run_command(*arguments, status=0, cwd="."):
    """What it prints, and its messages; fails unless the exit status is the expected one. Offline, without settings."""
    out = io.StringIO()
    err = io.StringIO()
    with contextlib.ExitStack() as around:
        patch = around.enter_context(pytest.MonkeyPatch.context())
        patch.delenv("CXC_ECCV_DATA", raising=False)
        patch.setenv("CXC_ECCV_OFFLINE", "1")
        patch.chdir(cwd)
        around.enter_context(warnings.catch_warnings())
        warnings.simplefilter("default")
        around.enter_context(contextlib.redirect_stdout(out))
        around.enter_context(contextlib.redirect_stderr(err))
        ended = around.enter_context(pytest.raises(SystemExit))
        main([os.fspath(argument) for argument in arguments])
    assert ended.value.code == status, err.getvalue()
    return out.getvalue(), err.getvalue()
