"""What ``cxc-eccv compare`` shows and writes: a comparison of models, and their places among published ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from cxc_eccv.comparison.differences import Comparison
from cxc_eccv.comparison.label_agreement import ModelAgreement
from cxc_eccv.comparison.published_chart import (
    describe_intervals,
    describe_orders,
    describe_standing,
    is_charted,
    make_published_chart,
)
from cxc_eccv.comparison.published_join import Joined
from cxc_eccv.errors import InvalidOption
from cxc_eccv.presentation import Section, ShownResult
from cxc_eccv.presentation.dot_plot import DotPlot
from cxc_eccv.presentation.drawing import Drawing, DrawnChart
from cxc_eccv.presentation.scatter import NARROW, WIDE, Scatter
from cxc_eccv.tables import Table, describe_doubts, tables_to_latex


@dataclass(frozen=True, slots=True)
class ComparedModels(ShownResult):
    """A comparison or an agreement, and published tables with the models; either may be missing.

    The console names ``--output`` for more, unless the files of the comparison are written too.
    """

    page_template: ClassVar[tuple[str, str]] = ("compared.html.jinja", "cxc_eccv.comparison")

    comparison: Comparison | ModelAgreement | None = None
    published: tuple[Joined, ...] = ()
    is_written: bool = False

    @property
    def title(self) -> str:
        """How many models are compared."""
        return self.comparison.title if self.comparison else "Your models among published ones"

    def tables(self) -> list[Table]:
        """Those of the comparison, and the models next to the user's among the published ones."""
        compared = self.comparison.tables() if self.comparison else []
        tables = [*compared, *(table for joined in self._say_doubts_once() for table in joined.tables())]
        return [replace(table, elsewhere="") for table in tables] if self.is_written else tables

    def all_tables(self) -> list[Table]:
        """Those of the comparison with all that is known, and all published models."""
        compared = self.comparison.all_tables() if self.comparison else []
        return [*compared, *self._list_published(self._say_doubts_once())]

    def to_latex(self) -> str:
        """The tables of the comparison and all published models as LaTeX."""
        compared = self.comparison.tables() if self.comparison else []
        return tables_to_latex([*compared, *self._list_published(self.published)])

    def record(self) -> dict[str, object]:
        """The content of ``compare.json``; values are in the units of report.json."""
        content: dict[str, object] = self.comparison.record() if self.comparison else {"schema": 1}
        if self.published:
            content["published"] = [joined.record() for joined in self.published]
        return content

    def sections(self) -> list[Section]:
        """Where the user's models stand, as a chart; the sections of the comparison; and the published models."""
        compared = self.comparison.sections() if self.comparison else []
        published = []
        if self.published:
            tables = self._list_published(self._say_doubts_once())
            published = [Section("published", "Published models", tables)]
        return [*self._list_standing(), *compared, *published]

    @property
    def chart(self) -> Scatter | None:
        """The user's models among published ones; None where no model has a metric of the chart."""
        return make_published_chart(self.published) if is_charted(self.published) else None

    @property
    def drawing(self) -> Drawing:
        """The chart of published models, or else that of the comparison, as a file has it.

        Raises:
            InvalidOption: there is nothing to draw.
        """
        chart: Scatter | DotPlot | None = self.chart
        if chart is None and not self.published and isinstance(self.comparison, Comparison):
            chart = self.comparison.chart
        if chart is None:
            metrics = "COCO 5K R@1 and ECCV Caption mAP@R" if self.published else "main metrics that are fractions"
            raise InvalidOption(f"there is nothing to draw: no report has {metrics}. Evaluate these tasks too")
        return chart.draw()

    def _list_standing(self) -> list[Section]:
        """The section of the chart."""
        if self.chart is None:
            return []
        doubts = describe_doubts(self.published[0].doubts)
        lead = " ".join([*describe_standing(self.published), *doubts, describe_orders()])
        return [Section("standing", "Where your models stand", lead=lead, name="Chart")]

    def page_content(self, images: str | Path | None = None) -> dict[str, Any]:
        """What the comparison adds to its sections."""
        content: dict[str, Any] = {"baseline": "", "confidence": None, "ranks": {}, "charts": {}}
        if self.comparison:
            content = self.comparison.page_content(images)
        charts = dict(content["charts"])
        if self.chart is not None:
            note = describe_intervals(self.published)
            charts["standing"] = DrawnChart(self.chart.draw(WIDE), self.chart.draw(NARROW), note)
        return {**content, "charts": charts}

    def _say_doubts_once(self) -> list[Joined]:
        """The published tables; doubts stand in the comparison, or else in the first of these tables alone."""
        silent = [replace(joined, doubts={}) for joined in self.published]
        if isinstance(self.comparison, Comparison):
            return silent
        return [*self.published[:1], *silent[1:]]

    @staticmethod
    def _list_published(published: Iterable[Joined]) -> list[Table]:
        return [table for joined in published for table in joined.all_tables()]
