"""``docs/reference/python.md`` and the pages below it: the public names, for mkdocstrings to describe."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from cxc_eccv import errors
from cxc_eccv.errors import DataError
from cxc_eccv.terminal import markdown_table
from site_pages.parts import GENERATED

__all__ = ["FOLDER", "error_table", "reference_pages", "summaries"]

FOLDER = "docs/reference/python"
DIRECTIVE = "::: {}\n    options:\n      heading_level: 2"
ROLE = re.compile(r":\w+:`([^`]+)`")


@dataclass(frozen=True)
class Group:
    """A page of the reference."""

    title: str
    introduction: str
    names: dict[str, tuple[str, ...]]
    """Module to names in it."""


GROUPS = {
    "data": Group(
        "Data",
        "Load the dataset, read the raw sources, build a folder, and ask for the positives of each source.",
        {
            "cxc_eccv": ("load", "Library", "build_folder", "attach_images"),
            "cxc_eccv.judgments.merging": ("coco_links", "merged_qrels", "cxc_rated", "eccv_caption"),
            "cxc_eccv.types": ("Judgments", "JudgedRanks", "RatedPairs"),
        },
    ),
    "runs": Group(
        "Runs",
        "Read, check and write embeddings, scores and rankings. [Files](../files.md) has the formats.",
        {
            "cxc_eccv": ("load_run", "load_embeddings", "save_embeddings"),
            "cxc_eccv.runs": (
                "EmbeddingsRun",
                "ScoresRun",
                "RankingsRun",
            ),
            "cxc_eccv.types": ("Embeddings",),
        },
    ),
    "evaluate": Group(
        "Evaluate and report",
        "Score a run or a model, and save, load and show the report.",
        {
            "cxc_eccv": ("evaluate", "evaluate_model", "load_report"),
            "cxc_eccv.evaluation": ("Request",),
            "cxc_eccv.types.model_options": ("Encoding",),
            "cxc_eccv.report": ("Report", "ReportData"),
            "cxc_eccv.presentation": ("ShownResult",),
            "cxc_eccv.types": ("Result", "Bounds", "RatingBin"),
        },
    ),
    "metrics": Group(
        "Metrics",
        "Look up metrics and tasks. Every metric has [its page](../../metrics/index.md).",
        {
            "cxc_eccv": ("metric",),
            "cxc_eccv.registry": ("tasks", "metrics", "task", "metric", "metric_variants"),
            "cxc_eccv.types": (
                "PositiveRanks",
                "TopK",
                "look_up_gains",
                "find_positions",
                "find_sides",
                "other_side",
                "check_values",
                "check_whole",
            ),
        },
    ),
    "compare": Group(
        "Compare",
        "Test the differences between models, and place a model among published ones.",
        {
            "cxc_eccv": ("compare", "load_reports"),
            "cxc_eccv.comparison": (
                "ScoredReport",
                "Comparison",
                "Difference",
                "ModelRank",
                "join",
                "measure_agreement",
                "ModelAgreement",
                "metric_agreement",
            ),
            "cxc_eccv.statistics": ("rank_intervals", "RankIntervals"),
        },
    ),
    "train": Group(
        "Train",
        "Score a model, and train with several positives of an image or a caption, in a loop or `Trainer` of your own.",
        {
            "cxc_eccv.training": ("RetrievalCallback", "RetrievalScores"),
            "cxc_eccv": ("collect_positives", "MultiPositiveCollator", "multi_positive_loss"),
        },
    ),
    "studies": Group(
        "Studies",
        "Explain failures in concepts, classify entailment, and measure what labels change.",
        {
            "cxc_eccv.studies.explain.concepts": ("load_concepts", "find_mentions"),
            "cxc_eccv.studies.explain.failed_queries": ("measure_failures", "keep_mentioned", "subtract_best"),
            "cxc_eccv.types.concept_pairs": ("ConceptPairs",),
            "cxc_eccv.studies.explain.altering": ("alter",),
            "cxc_eccv.studies.entailment.judge": ("ClassifierJudge",),
            "cxc_eccv.studies.annotation.changes": ("measure_changes",),
        },
    ),
    "declare": Group(
        "Declare",
        "Add a metric, a task or a dataset config, as [Contributing](../../contributing.md) shows.",
        {
            "cxc_eccv.metrics.kinds": (
                *(
                    "Spec",
                    "RankMetric",
                    "BestRank",
                    "SumOver",
                    "MeanOver",
                    "JudgedMetric",
                    "TopMetric",
                    "PlausibleMetric",
                    "RatedMetric",
                ),
                *("WholeMetric", "FailureMetric"),
            ),
            "cxc_eccv.tasks.task": ("Task", "Part"),
            "cxc_eccv.builders.dataset_config": ("DatasetConfig", "BuildOptions", "Rows"),
        },
    ),
}
"""File name to the page, in the order of use."""

COMPLETE = ("cxc_eccv", "cxc_eccv.types", "cxc_eccv.training")
"""Modules of which every function and class is on a page."""


def reference_pages() -> dict[str, str]:
    """Path to text of the page of every group."""
    _refuse_forgotten()
    return {f"{FOLDER}/{name}.md": _page(group) for name, group in GROUPS.items()}


def summaries() -> str:
    """A table for every group: its names, linked, with the first sentence of each."""
    blocks = []
    for name, group in GROUPS.items():
        rows = [(f"[`{shown}`][{_path(value)}]", _sentence(value)) for shown, value in _values(group)]
        blocks += [
            f"## [{group.title}](python/{name}.md)",
            group.introduction,
            markdown_table(["name", "what it is"], rows),
        ]
    return "\n\n".join(blocks).replace("](../files.md)", "](files.md)").replace("](../../", "](../")


def error_table() -> str:
    """A row for every exception of the tree."""
    named = {name: getattr(errors, name) for name in errors.__all__}
    tree: dict[str, type[Exception]] = {
        name: kind for name, kind in named.items() if inspect.isclass(kind) and issubclass(kind, Exception)
    }
    rows = [(f"`{name}`", f"`{kind.__bases__[0].__name__}`", _sentence(kind)) for name, kind in tree.items()]
    return markdown_table(["exception", "is a", "when"], rows)


def _page(group: Group) -> str:
    directives = [DIRECTIVE.format(_path(value)) for _, value in _values(group)]
    return "\n\n".join([GENERATED, f"# {group.title}", group.introduction, *directives]) + "\n"


def _values(group: Group) -> Iterator[tuple[str, object]]:
    """Names, those of the package itself as ``ce.name``, and what they stand for."""
    for module, names in group.names.items():
        home = importlib.import_module(module)
        for name in names:
            yield f"ce.{name}" if module == "cxc_eccv" else name, getattr(home, name)


def _refuse_forgotten() -> None:
    """Every public function and class has its place."""
    placed = {_path(value) for group in GROUPS.values() for _, value in _values(group)}
    for module in COMPLETE:
        home = importlib.import_module(module)
        for name in home.__all__:
            value = getattr(home, name)
            described = inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value))
            if described and _path(value) not in placed:
                raise DataError(f"{module}.{name} is on no page of the reference; add it to GROUPS of python_page.py")


def _path(value: object) -> str:
    """The module that defines it, and its name there."""
    return f"{value.__module__}.{value.__qualname__}"  # type: ignore[attr-defined]


def _sentence(value: object) -> str:
    """First line of the docstring, as Markdown."""
    first = (inspect.getdoc(value) or "").partition("\n")[0]
    return ROLE.sub(r"`\1`", first).replace("``", "`")
