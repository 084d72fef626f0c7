"""The page of label quality: all tables of an appraisal in one self-contained HTML file."""

from __future__ import annotations

from cxc_eccv.report.charts import LineChart, step_chart
from cxc_eccv.report.pages import page_style, template
from cxc_eccv.report.wording import direction_name
from cxc_eccv.studies.annotation.worth.appraisal import Appraisal
from cxc_eccv.studies.annotation.worth.tables import METRICS, PARTS, SECTIONS, appraisal_to_tables, say_lacking

LEADS = {
    "counts": (
        "A query has several matches, and most sets of labels have few of them. The tables count the items that each "
        "set calls positive for a query."
    ),
    "worth": (
        "Precision is the share of a set's positives that people confirmed. Recall is the share of confirmed positives "
        "that the set has. Both are means over queries."
    ),
    "bias": (
        "People verify what models propose, so labels favour these models. The tables compare scores on the labels of "
        "some models' proposals with scores on the labels of all."
    ),
    "diversity": (
        "Models that rank alike propose the same pairs. The tables compare the order of their top items, and the rank "
        "that one model gives to another's first item."
    ),
    "preferences": "Strengths that make people's choices most likely.",
}


def render_labels(appraisal: Appraisal, command: str | None = None) -> str:
    """The page's HTML; everything from data is escaped."""
    provenance = appraisal.provenance
    facts = {
        "Command": command,
        "Labels": "; ".join(
            f"{name} {facts['version']}: {facts['rule']}, {facts['people']:,} people"
            for name, facts in provenance["labels"].items()
        ),
        "Models": ", ".join(provenance["models"]),
        "Intervals": f"{100 * provenance['confidence']:g}%, from a bootstrap over images, seed {provenance['seed']}",
        "Data edition": provenance["data"]["edition"],
        "Package version": provenance["package"]["version"],
    }
    return template("labels.html.jinja", "cxc_eccv.studies.annotation", keep_trailing_newline=True).render(
        appraisal=appraisal,
        css=page_style(),
        tables=appraisal_to_tables(appraisal),
        sections=SECTIONS,
        leads=LEADS,
        charts=_draw_biases(appraisal),
        lacking=say_lacking(appraisal),
        facts=[(title, text) for title, text in facts.items() if text],
    )


def _draw_biases(appraisal: Appraisal) -> list[LineChart]:
    """A chart per direction and metric, all with the same axis, like Figure E.2 of the ECCV Caption paper."""
    shown = [biases for biases in appraisal.bias if len(biases.by_size) > 1]  # a single size is in the table
    every = [estimate for biases in shown for bias in biases.by_size.values() for estimate in bias.values()]
    largest = max((estimate.high for estimate in every if estimate is not None), default=0.0)
    return [
        step_chart(
            f"bias-{biases.direction}-{biases.metric}",
            f"{METRICS[biases.metric]}, {direction_name(biases.direction)}",
            [str(size) for size in biases.by_size],
            {
                part: (name, [(it.value, it.low, it.high) for bias in biases.by_size.values() if (it := bias[part])])
                for part, name in PARTS.items()
            },
            largest,
        )
        for biases in shown
    ]
