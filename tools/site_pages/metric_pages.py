"""``docs/metrics``: one page per metric of the registry, and their table."""

from __future__ import annotations

from cxc_eccv import registry
from cxc_eccv.adapters.described import ARXIV, Description
from cxc_eccv.builders.markdown import table
from cxc_eccv.metrics.spec import Spec

__all__ = ["metric_parts", "metrics_table"]

INPUTS = {
    "ranks": "the ranks of all positives",
    "top_k": "the top K or R items and judgments with gains",
    "plausible_hits": "the plausible matches counted among the top items",
    "rated_pairs": "the model's similarity of each rated pair",
    "altered_ranks": "the ranks of all positives, with altered captions in the gallery and without",
    "comparisons": "the scores of images with captions, and with their hard negatives",
    "scores": "values of other metrics in all parts of a task",
    "concepts": "the concepts that two images show",
    "concept_similarity": "the concepts that two images show, and how similar two concepts are",
    "concept_sizes": "the concepts that two images show, with the areas of their instances",
}

EVALUATE = """\
## Through `evaluate`

The package holds a module for Hugging Face's `evaluate`, which the extra `metrics` brings
(`pip install 'cxc_eccv[metrics]'`). It takes {takes} of your own and needs none of the data.

```python
import cxc_eccv as ce
import evaluate

metric = evaluate.load(ce.metric("{name}"))
results = metric.compute(
{arguments}
)
print(results)
```

```text
{result}
```

`print(metric.inputs_description)` describes its inputs. `cxc-eccv push {name} org/{name} --type space` makes it a Space
that `evaluate.load("org/{name}")` finds."""


def metric_parts(spec: Spec) -> dict[str, str]:
    """Name to text of the generated parts of a metric's page."""
    described = Description(spec)
    module = spec.function.__module__
    return {
        "facts": f"# {described.title}\n\n{described.text}\n\n{_facts(spec, described)}",
        "use": f"## From Python\n\n::: {module}.{spec.name}\n\n{_evaluate(described)}",
    }


def metrics_table() -> str:
    """A row for every metric."""
    rows = [
        (f"[{Description(spec).title}]({name}.md)", f"`{name}`", INPUTS.get(spec.needs, spec.needs), _tasks(spec))
        for name, spec in registry.metrics().items()
    ]
    return table(["metric", "name", "computed from", "reported by default on"], rows)


def _facts(spec: Spec, described: Description) -> str:
    low, high = spec.bounds
    reach = f"{low:g} to {high:g}" if high is not None else f"{low:g} and more"
    labels = [spec.label(**parameters) for parameters in spec.variants()]
    rows = [
        ("name", f"`{spec.name}`"),
        ("in reports", ", ".join(f"`{label}`" for label in labels)),
        ("computed from", INPUTS.get(spec.needs, spec.needs)),
        ("range", f"{reach}; {'higher' if spec.higher_is_better else 'lower'} is better"),
        ("one number", {"sum": "sum over both directions"}.get(spec.aggregate, f"{spec.aggregate} over {_unit(spec)}")),
        ("reported by default on", _tasks(spec)),
        ("defined in", ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", spec.citation)),
    ]
    return table(["property", "value"], rows)


def _unit(spec: Spec) -> str:
    if spec.explains:
        return "failures that have a value"
    if spec.needs != "rated_pairs":
        return {"scores": "parts", "comparisons": "items"}.get(spec.needs, "queries")
    return "samples" if "n_samples" in spec.select_options({"n_samples": None}) else "all pairs at once"


def _tasks(spec: Spec) -> str:
    reporting = [name for name, task in registry.tasks().items() if spec.name in (*task.metrics, *task.whole)]
    otherwise = "[`cxc-eccv explain`](../explain.md)" if spec.explains else "none; name it to get it"
    return ", ".join(f"[`{name}`](../tasks.md#{name})" for name in reporting) or otherwise


def _evaluate(described: Description) -> str:
    arguments = "\n".join(f"    {line}" for line in described.call)
    takes = "concepts of images" if described.spec.explains else "rankings, or similarities,"
    return EVALUATE.format(name=described.spec.name, takes=takes, arguments=arguments, result=described.result)
