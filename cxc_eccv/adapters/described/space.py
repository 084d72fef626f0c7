"""Text of ``app.py`` and ``requirements.txt``, which make a module run as a Hub Space."""

from __future__ import annotations

import json
import re
from importlib.metadata import requires

import cxc_eccv
from cxc_eccv.adapters.described.description import Description

__all__ = ["GENERATED", "GRADIO", "requirements", "space_app"]

GENERATED = "Made from the metric's declaration; do not edit."
GRADIO = "6.31.0"

APP = '''\
"""The Space of the metric {title}: computes it from inputs typed as JSON.

{generated}
"""

import json
import re
from pathlib import Path

import evaluate
import gradio

FOLDER = Path(__file__).parent
METRIC = evaluate.load(str(FOLDER / "{name}.py"))
COLUMNS = {columns}
EXAMPLE = {example}


def compute(*texts: str) -> dict[str, object]:
    """Results of the columns and, last, the options, all given as JSON."""
    try:
        *columns, options = (json.loads(text) for text in texts)
        return METRIC.compute(**dict(zip(COLUMNS, columns, strict=True)), **options)
    except Exception as error:
        raise gradio.Error(f"{{type(error).__name__}}: {{error}}", print_exception=False) from error


interface = gradio.Interface(
    fn=compute,
    inputs=[gradio.Textbox(label=name, lines=2) for name in [*COLUMNS, "options"]],
    outputs=gradio.JSON(label="results"),
    examples=[EXAMPLE],
    title={quoted_title},
    description=METRIC.info.description,
    article=(FOLDER / "README.md").read_text(encoding="utf-8").split("---", 2)[-1],
    flagging_mode="never",
    api_name="compute",
)

if __name__ == "__main__":
    interface.launch()
'''


def space_app(described: Description) -> str:
    """The Space's program; formatted as ruff would."""
    columns = described.kind.example
    cells = [*(json.dumps(column) for column in columns.values()), json.dumps(described.kind.example_options)]
    return APP.format(
        title=described.title,
        quoted_title=json.dumps(described.title, ensure_ascii=False),
        generated=GENERATED,
        name=described.spec.name,
        columns=json.dumps(list(columns)),
        example="[\n" + "".join(f"    {_literal(cell)},\n" for cell in cells) + "]",
    )


def requirements(described: Description, *, self_contained: bool = False) -> str:
    """What the Space installs, pinned as this package pins it."""
    pins = [_lower_bound_first(pin.partition(";")[0].strip()) for pin in requires("cxc_eccv") or ()]
    wanted = ("datasets", "evaluate", "numpy", *described.kind.packages)
    package = [] if self_contained else [f"cxc_eccv>={cxc_eccv.__version__}"]
    lines = [*package, *dict.fromkeys(pin for pin in pins if pin.startswith(wanted)), f"gradio=={GRADIO}"]
    return "\n".join(lines) + "\n"


def _lower_bound_first(pin: str) -> str:
    name = re.split("[<>=]", pin)[0]
    return name + ",".join(sorted(pin.removeprefix(name).split(","), reverse=True))


def _literal(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'
