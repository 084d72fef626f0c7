"""Entail@K beyond a report: pairs for others to judge, people's answers, and the mean over collections."""
