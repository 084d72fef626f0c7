"""A comparison as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from cxc_eccv.comparison.differences import Comparison, group_ranks, list_difference_tables, list_rank_tables
from cxc_eccv.comparison.label_agreement import ModelAgreement
from cxc_eccv.comparison.model_ranks import ModelRank
from cxc_eccv.report.pages import page_style, template
from cxc_eccv.tables import Table


def render_comparison(comparison: Comparison | ModelAgreement | None, published: Sequence[Table] = ()) -> str:
    """The comparison, and tables of published models, as HTML; everything from the data is escaped."""
    sections: dict[str, Sequence[Table]] = {}
    ranks: dict[str, dict[str, list[ModelRank]]] = {}
    overviews: list[Table] = []
    if isinstance(comparison, Comparison):
        if len(comparison.models) > 1:
            ranks = group_ranks(comparison.ranks)
            overviews = list_rank_tables(comparison)
            sections["Scores"] = comparison.tables()
        sections[f"Differences from {comparison.baseline}"] = list_difference_tables(comparison)
    elif comparison is not None:
        sections["Agreement"] = comparison.tables()
    if published:
        sections["Published models"] = published
    return template("compared.html.jinja", "cxc_eccv.comparison", keep_trailing_newline=True).render(
        comparison=comparison,
        data=comparison.data if comparison else published[0].data,
        n_models=len(comparison.models) + isinstance(comparison, Comparison) if comparison else 0,
        css=page_style(),
        sections=sections,
        ranks=ranks,
        overviews=dict(zip(ranks, overviews, strict=True)),
    )
