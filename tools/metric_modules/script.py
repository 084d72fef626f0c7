"""Text of a module, ``<name>/<name>.py``: short, or with all that it says written out."""

from __future__ import annotations

import json

from cxc_eccv.evaluate_modules.module import LIST, Column
from cxc_eccv.evaluate_modules.module_cards import GENERATED_NOTE, Description, inputs_description
from cxc_eccv.metrics.kinds import TopMetric
from cxc_eccv.unjudged.policies import policies

__all__ = ["alone", "module_script", "written_out"]

SHORT = '''\
"""{title}: a module for ``evaluate``."""

import evaluate

{imports}


class {class_name}({base}, evaluate.Metric):
    """{title}."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
'''

SCRIPT = '''\
"""{title}: a module for ``evaluate``.

{generated}
"""

import datasets
import evaluate

{imports}
{policies}
_DESCRIPTION = """\\
{description}
"""

_INPUTS_DESCRIPTION = """
{inputs}
"""

_CITATION = """\\
{citation}
"""


class {class_name}({base}, evaluate.Metric):
    """{title}."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS_DESCRIPTION,
            features=datasets.Features(
                {{
{features}
                }}
            ),
            license="Apache-2.0",
            reference_urls={addresses},
        )
'''


POLICIES = '''

def policies() -> Mapping[str, Policy]:
    """Every declared policy by name; a file that is alone finds no others."""
    return {{policy.name: policy for policy in ({names})}}

'''


def module_script(described: Description) -> str:
    """The file in ``metrics/``: what it says of itself is derived when it is loaded."""
    kind = described.kind
    return SHORT.format(
        title=described.title,
        imports="\n".join(
            [
                "from cxc_eccv.evaluate_modules import module_cards",
                f"from {kind.__module__} import {kind.__name__}",
                f"from cxc_eccv.metrics.{described.spec.name} import SPEC",
            ]
        ),
        class_name=_class_name(described),
        base=kind.__name__,
    )


def written_out(described: Description) -> str:
    """The same with every text written out, for a file that carries its code with it; formatted as ruff would."""
    columns = described.kind.columns.items()
    return SCRIPT.format(
        title=described.title,
        generated=GENERATED_NOTE,
        imports="\n".join(_imports(described)),
        policies=_policies(described),
        description=_quoted(described.text),
        inputs=_quoted(inputs_description(described, alone(described.spec.name))),
        citation=_quoted(described.citation),
        class_name=_class_name(described),
        base=described.kind.__name__,
        features="\n".join(f'                    "{name}": {_feature(column)},' for name, column in columns),
        addresses=json.dumps(described.addresses),
    )


def alone(name: str) -> list[str]:
    """Lines that load a module from an exported folder."""
    return ["import evaluate", f'metric = evaluate.load("{name}")']


def _class_name(described: Description) -> str:
    return "".join(part.capitalize() for part in described.spec.name.split("_"))


def _feature(column: Column) -> str:
    value = f'datasets.Value("{column.dtype.removeprefix(LIST)}")'
    return f"datasets.Sequence({value})" if column.dtype.startswith(LIST) else value


def _imports(described: Description) -> list[str]:
    lines = [
        f"from {described.kind.__module__} import {described.kind.__name__}",
        f"from cxc_eccv.metrics.{described.spec.name} import SPEC",
    ]
    if not _policies(described):
        return lines
    names = policies()
    lines += [f"from cxc_eccv.unjudged.policies.{name} import POLICY as {name.upper()}" for name in names]
    return ["from collections.abc import Mapping", "from cxc_eccv.unjudged.policies import Policy", *lines]


def _policies(described: Description) -> str:
    if not (isinstance(described.spec, TopMetric) and described.spec.has_policy):
        return ""
    return POLICIES.format(names=", ".join(map(str.upper, policies())))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
