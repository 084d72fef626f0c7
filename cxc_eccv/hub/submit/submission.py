"""Submission: a checked report as a pull request to the model it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from huggingface_hub import CommitOperationAdd

from cxc_eccv.errors import HubConflict, HubUnavailable
from cxc_eccv.hub.client import TRIES, Repository, wait_before_next
from cxc_eccv.hub.submit import eval_results
from cxc_eccv.hub.upload import text_diff

__all__ = ["Submission"]

Text = tuple[str | None, str]
"""What is there, None for nothing, and what shall be there."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission that was looked at and not made yet; print it to see what it would change.

    Attributes:
        repository: of the model.
        parent: its commit that was looked at.
        files: path to what is there and what shall be there.
        title: of the pull request.
        description: of the pull request.
        left_out: keys of the report that the leaderboard has no task for.
        unpublished: raw files of the report whose authors publish no hash.
    """

    repository: Repository
    parent: str
    files: Mapping[str, Text]
    title: str
    description: str
    left_out: tuple[str, ...] = ()
    unpublished: tuple[str, ...] = ()

    @property
    def pending(self) -> dict[str, str]:
        """Path to new text of the files that change."""
        return {path: after for path, (before, after) in self.files.items() if before != after}

    @property
    def diff(self) -> str:
        """Unified diff of all files."""
        return "\n".join(text_diff(before or "", after, path) for path, (before, after) in self.files.items())

    def __str__(self) -> str:
        lines = [f"left out: {key}, for which the leaderboard has no task" for key in self.left_out]
        lines += [f"taken on trust: {name}, whose sha256 its authors do not publish" for name in self.unpublished]
        lines += [self.diff if self.pending else f"{self.repository} states these results already"]
        return "\n".join(lines)

    def open_pull_request(self, planned_anew: Callable[[], Submission]) -> str:
        """Open the pull request, once: one that is open with the same results is used.

        Args:
            planned_anew: makes the submission again, after somebody else changed the model.

        Returns:
            Its address.

        Raises:
            HubAccessDenied: no token.
            HubUnavailable: the Hub does not answer, although asked several times.
            HubError: it refuses what was sent.
        """
        self.repository.access.require_token()
        submission = self
        for attempt in range(TRIES):
            try:
                return submission._already_open() or submission._opened()
            except HubUnavailable as error:
                wait_before_next(attempt, error)
            except HubConflict:
                if attempt + 1 == TRIES:
                    raise
                submission = planned_anew()
        raise AssertionError("the last attempt returns or raises")

    def _opened(self) -> str:
        additions = [CommitOperationAdd(path, text.encode()) for path, text in self.pending.items()]
        self.repository.send(additions, pull_request=True)
        commit = self.repository.commit(additions, self.title, parent=self.parent, pull_request=self.description)
        return str(commit.pr_url)

    def _already_open(self) -> str | None:
        """Its answer may have been lost, or the command was given twice."""
        for one in self.repository.open_pull_requests():
            if one.title == self.title and self._states_the_same(f"refs/pr/{one.num}"):
                return one.url
        return None

    def _states_the_same(self, revision: str) -> bool:
        there = self.repository.files(revision)
        for path, text in self.pending.items():
            found = self.repository.text(path, revision) if path in there else ""
            is_same = eval_results.same_results if path == eval_results.PATH else str.__eq__
            if not found or not is_same(found, text):
                return False
        return True
