"""From a run and tasks to a report: four stages, each with a file of its own, called one after the other.

:func:`~cxc_eccv.evaluation.calls.evaluate` reads from top to bottom as the walk does::

    run, "cxc", metrics, split
      | select    tasks() and metrics() of the registry -> Part: one direction of one task, its Plan, its Needs
      | measure   errors, all at once: items the run lacks, items nobody knows, rankings that end too early;
      |           then one pass of ranking.ranks_of_run: every Need learns what its metrics are computed from
      | score     Need.score: values of queries -> their mean or median; intervals: images drawn again and again
      | report    numbers over a whole task, reasons, provenance -> Report
    report.json

- :mod:`~cxc_eccv.evaluation.select` decides what is computed. A :class:`~cxc_eccv.evaluation.select.Plan` holds the
  metrics of one task, each with its parameters (a :class:`~cxc_eccv.evaluation.needs.Variant`); a
  :class:`~cxc_eccv.evaluation.select.Part` is what the later stages pass on: one direction, or one kind of rated pairs,
  with the judgments. What "all" tasks cannot give is skipped with the reason; what was named and cannot be given is an
  error.
- :mod:`~cxc_eccv.evaluation.restriction` finds what of the split takes no part: behind a limit, unreadable, or missing
  in the run. Judgments are cut to the rest before a need sees them, as if what is left out had never been.
- :mod:`~cxc_eccv.evaluation.labels` puts what some sources of labels say together in the place of a task's positives,
  where a caller names them; needs, metrics and intervals see no difference.
- :mod:`~cxc_eccv.evaluation.needs` knows what metrics are computed from. Ranks, top items, plausible matches, rated
  pairs and other scores are one class and one file each: what a run must hold for it, what is ranked or read for it,
  which rankings are too short for it, and what the metric makes of it. ``Spec.needs`` names it.
- :mod:`~cxc_eccv.evaluation.measure` looks for faults before the long pass, so that a user waits for no error, and
  gathers what the needs ask for, so that one product of embeddings serves all.
- :mod:`~cxc_eccv.evaluation.score` turns each part into :class:`~cxc_eccv.evaluation.needs.Scored` numbers. The value
  of every query comes first: intervals, the per-query table and paired comparisons all start there.
  :class:`~cxc_eccv.statistics.Draws` depend on the seed and the number of images alone, so that samples of one
  metric may be added to those of another (RSUM) and compared between models.
- :mod:`~cxc_eccv.evaluation.bounds` says how low and how high a number could be under any labels of the retrieved pairs
  that nobody judged. It adds its readers of the top of every query to the pass, and asks the needs once they are
  finished; no need knows of bounds.
- :mod:`~cxc_eccv.evaluation.report` puts the numbers of a task together and records what they were computed from;
  :mod:`~cxc_eccv.evaluation.report_files` writes and reads report.json and per_query.parquet.

An error of one metric is kept beside its need (``Need.errors``): it is the reason that the report gives for what it
lacks, or it is raised where the user named that metric. :mod:`~cxc_eccv.evaluation.settings` holds what changes how
values are shown, not what is measured; :func:`~cxc_eccv.evaluation.calls.report_of_ranks` enters behind ``measure``,
with ranks from elsewhere.
"""

from cxc_eccv.evaluation.calls import check_request, evaluate, evaluate_rankings, report_of_ranks
from cxc_eccv.evaluation.report_files import report_from_json, report_to_json

__all__ = ["check_request", "evaluate", "evaluate_rankings", "report_from_json", "report_of_ranks", "report_to_json"]
