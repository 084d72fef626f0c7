"""A process that runs what it is told: its Hub client was set up, by the environment, before it was imported.

One line of JSON in, one out. Standard output and error are those of the whole process, so that whatever a library
prints or logs is seen. Nothing sleeps.
"""

import functools
import io
import json
import os
import sys
import tempfile
import time
import traceback

import typer.main

typer.main.get_command = functools.cache(typer.main.get_command)  # as in this process's parent: conftest.py


def command(arguments):
    """The command line, as a user runs it."""
    from cxc_eccv.cli.app import main

    sys.argv = ["cxc-eccv", *arguments]
    main()


def done(request):
    variables = {"given": request.get("given"), "told": None}
    if request.get("folder"):
        os.chdir(request["folder"])
    for name, value in request["environment"].items():
        os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
    sys.stdin = io.StringIO(request.get("input", ""))  # what the user types
    try:
        command(request["command"]) if "command" in request else exec(request["code"], variables)
    except SystemExit as end:
        return {"status": end.code or 0}
    except BaseException as error:
        traceback.print_exc()
        return {"status": 1, "error": type(error).__name__, "message": str(error)}
    return {"status": 0, "told": variables["told"]}


def main():
    time.sleep = lambda seconds: None
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            answer = done(json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            for name, stream in (("out", out), ("err", err)):
                stream.seek(0)
                answer[name] = stream.read().decode()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
