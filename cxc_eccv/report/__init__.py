"""Reports of runs: what they hold, how they are shown, saved and loaded."""

from cxc_eccv.report.report import Report
from cxc_eccv.report.report_data import ReportData

__all__ = ["Report", "ReportData"]
