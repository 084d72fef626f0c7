"""The page of what labels are worth: all tables of an appraisal in one self-contained HTML file."""

from __future__ import annotations

from cxc_eccv.report.charts import LineChart, step_chart
from cxc_eccv.report.pages import page_style, template
from cxc_eccv.report.wording import direction_name
from cxc_eccv.studies.annotation.worth.appraisal import Appraisal
from cxc_eccv.studies.annotation.worth.tables import METRICS, PARTS, SECTIONS, appraisal_to_tables, say_lacking

LEADS = {
    "counts": (
        "A query has several matches, and most sets of labels know few of them. Counted are the items that each set "
        "calls positive for a query."
    ),
    "worth": (
        "Precision: how much of what a set calls positive people confirmed. Recall: how much of what people confirmed "
        "the set has. Both are means over queries."
    ),
    "bias": (
        "People verify what models propose, so that labels favour those models. Scores on the labels of some models' "
        "proposals are held against scores on the labels of all."
    ),
    "diversity": (
        "Models that rank alike propose alike: how far the orders of their first items agree, and where one has what "
        "another has first."
    ),
    "preferences": "Strengths under which the choices that people made are likeliest.",
}


def render_labels(appraisal: Appraisal, command: str | None = None) -> str:
    """The page's text; everything out of data is escaped."""
    provenance = appraisal.provenance
    facts = {
        "Command": command,
        "Labels": "; ".join(
            f"{name} {own['version']}: {own['rule']}, {own['people']:,} people"
            for name, own in provenance["labels"].items()
        ),
        "Models": ", ".join(provenance["models"]),
        "Intervals": f"{100 * provenance['confidence']:g}%, of a bootstrap over images, seed {provenance['seed']}",
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
    """A chart per direction and metric, all on one axis, as Figure E.2 of the ECCV Caption paper."""
    shown = [own for own in appraisal.bias if len(own.by_size) > 1]  # of one number of annotators the table says all
    every = [own for found in shown for bias in found.by_size.values() for own in bias.values()]
    largest = max((own.high for own in every if own is not None), default=0.0)
    return [
        step_chart(
            f"bias-{found.direction}-{found.metric}",
            f"{METRICS[found.metric]}, {direction_name(found.direction)}",
            [str(size) for size in found.by_size],
            {
                part: (name, [(own.value, own.low, own.high) for bias in found.by_size.values() if (own := bias[part])])
                for part, name in PARTS.items()
            },
            largest,
        )
        for found in shown
    ]
