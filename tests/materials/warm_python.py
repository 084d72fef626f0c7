"""A Python that starts at once: a fork of one that has imported what takes seconds, and nothing of this package.

    python warm_python.py SOCKET                    leaves a server, which ends when nobody has a connection open
    python -IS warm_python.py SOCKET -c CODE ...    does what ``python -c CODE ...`` does; with a file instead likewise

Folder, environment, streams and exit status are those of the second command. A signal to it does not reach the fork:
a test that kills what it starts needs another Python. What libraries read of the environment when they are imported,
such as ``HF_HOME``, is that of the first command.
"""

import array
import contextlib
import io
import json
import os
import socket
import sys

STREAMS = {"stdin": "rb", "stdout": "wb", "stderr": "wb"}
HEAVY = ("datasets", "jinja2", "numpy", "pandas", "pyarrow.parquet", "scipy.stats", "scipy.sparse", "torch", "typer")
MODELS = ("AutoModel", "AutoProcessor", "AutoTokenizer", "BertModel", "CLIPModel", "PreTrainedModel", "Trainer")


def ask(address, words):
    """Exit status of what a fork runs with these words."""
    streams = [number for number in range(3) if is_open(number)]
    request = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ), "streams": streams}  # noqa: PTH109
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))] if streams else []
        server.sendmsg([b"?"], rights)
        server.sendall(json.dumps(request).encode() + b"\n")
        status = int(server.recv(16))
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status)


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def serve(address):
    """What to run, in the fork that is to run it; None in the server, when the last connection is closed.

    A connection that asks for nothing keeps the server.
    """
    import select
    import signal

    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(16)
    listening.settimeout(60)
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    connections = [listening.accept()[0]]
    while connections:
        for ready in select.select([listening, *connections], [], [])[0]:
            if ready is listening:
                connections.append(listening.accept()[0])
                continue
            connections.remove(ready)
            question, rights, *_ = ready.recvmsg(1, socket.CMSG_SPACE(12))
            if question and not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for connection in (listening, *connections):
                    connection.close()
                return attend(ready, array.array("i", rights[0][2] if rights else b"").tolist())
            for _, _, numbers in rights:
                for number in array.array("i", numbers):
                    os.close(number)
            ready.close()
    return None


def attend(connection, numbers):
    """The request, in a fork with its streams, folder and environment, whose exit status goes back."""
    request = json.loads(connection.makefile().readline())
    if child := os.fork():
        connection.sendall(str(os.waitpid(child, 0)[1]).encode())
        os._exit(0)
    connection.close()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    given = dict(zip(request["streams"], numbers, strict=True))
    for number, (name, mode) in enumerate(STREAMS.items()):
        os.close(number)
        stream = None
        if number in given:
            os.dup2(given[number], number)
            os.close(given[number])
            file = open(number, mode)  # noqa: PTH123, SIM115
            usual = "backslashreplace" if name == "stderr" else "strict"
            lines = name == "stderr" or file.isatty()
            stream = io.TextIOWrapper(file, encoding or "utf-8", errors or usual, line_buffering=lines)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return request


def main_module(words, path):
    """Code to run as ``__main__`` with its arguments in place, and the names it begins with."""
    module = sys.modules["__main__"] = type(sys)("__main__")
    if words[0] == "-c":
        code = words[1]
        name = "<string>"
        first = ""
        sys.argv = ["-c", *words[2:]]
    else:
        file = Path(words[0]).absolute()
        code = file.read_text(encoding="utf-8")
        name = str(file)
        first = str(file.parent)
        sys.argv = words
        module.__file__ = name
    sys.path[:] = [first, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *path]
    return compile(code, name, "exec"), vars(module)


def import_heavy():
    import importlib

    for name in HEAVY:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    with contextlib.suppress(ModuleNotFoundError):
        transformers = importlib.import_module("transformers")
        for name in MODELS:
            getattr(transformers, name)


def run(code, names):
    """Exit status of code; standard output is flushed. To tear down all that was imported would take longer."""
    try:
        exec(code, names)
        status = 0
    except SystemExit as ended:
        status = ended.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError as error:
        os.write(2, f"Exception ignored: {error}\n".encode())
        status = 120
    return status


if __name__ == "__main__":
    if sys.argv[2:]:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
    import atexit
    import gc
    import threading
    import traceback
    from pathlib import Path

    import_heavy()
    gc.freeze()
    if request := serve(sys.argv[1]):
        os._exit(run(*main_module(request["words"], sys.path[1:])))
