"""The command line within this process: to start one takes longer than most commands, which test_streams.py does."""

import contextlib
import io
import os
import sys
import warnings

import pytest

from cxc_eccv.cli.app import main


def run_command(*arguments, status=0, cwd="."):
    """What it prints, and its messages; fails unless the exit status is the expected one. Offline, without settings."""
    out, err = io.StringIO(), io.StringIO()
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


def status_with_unread_streams(*arguments):
    """Exit status after ``2>&- | true``: the reader of standard output has gone, and standard error is closed."""
    kept, (reading, writing) = [os.dup(number) for number in (1, 2)], os.pipe()
    os.close(reading)
    os.dup2(writing, 1)
    os.close(writing)
    os.close(2)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("default")
        patch.delenv("CXC_ECCV_DATA", raising=False)
        patch.setenv("CXC_ECCV_OFFLINE", "1")
        # What Python makes of a pipe and of a closed stream.
        for name, stream in (("stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8")), ("stderr", None)):
            patch.setattr(sys, name, stream)
            patch.setattr(sys, f"__{name}__", stream)
        try:
            main([os.fspath(argument) for argument in arguments])
        except SystemExit as ended:
            return ended.code
        finally:
            for number, copy in enumerate(kept, 1):
                os.dup2(copy, number)
                os.close(copy)
