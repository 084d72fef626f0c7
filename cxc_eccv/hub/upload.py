"""Carrying out an upload: content first, then one commit with everything, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from huggingface_hub import CommitOperationAdd, CommitOperationDelete

from cxc_eccv.errors import HubConflict, HubError, HubUnavailable
from cxc_eccv.hub.patience import TRIES, wait_before_next
from cxc_eccv.hub.upload_plan import Change, UploadPlan

__all__ = ["carried_out"]


def carried_out(plan: UploadPlan, planned_anew: Callable[[], UploadPlan], message: str) -> UploadPlan:
    """Make the changes of a plan, in one commit.

    A commit whose answer is lost may have arrived, and somebody else may have committed meanwhile: then the plan is
    made anew from what the Hub holds, and what is there already is not sent again. The Hub keeps content that was sent
    before a failure, so another call goes on where this one ended.

    Args:
        plan: for a repository that exists.
        planned_anew: makes the plan again.
        message: of the commit.

    Returns:
        The plan that was carried out; without pending changes where the commit had arrived.

    Raises:
        HubUnavailable: the Hub did not answer in any of five attempts; the repository is as it was.
        HubConflict: somebody else kept changing the repository, or edited the generated part of the card.
        HubError: anything else.
        InvalidOption: a file changed while it was being uploaded.
    """
    for attempt in range(TRIES):
        try:
            if plan.pending:
                _commit(plan, message)
            return plan
        except HubUnavailable as error:
            wait_before_next(attempt, error)
        except HubConflict:
            if attempt + 1 == TRIES:
                raise
        plan = planned_anew()
    raise AssertionError("the last attempt returns or raises")


def _commit(plan: UploadPlan, message: str) -> None:
    if plan.parent is None:
        raise HubError(f"{plan.repository} is not there any more. Run the command again.")
    additions = [CommitOperationAdd(one.path, one.file.source) for one in plan.pending if one.file]
    deletions = [CommitOperationDelete(one.path, is_folder=False) for one in plan.pending if not one.file]
    plan.repository.send(additions)
    _require_unchanged(plan.pending)
    plan.repository.commit([*additions, *deletions], message, parent=plan.parent)


def _require_unchanged(changes: Sequence[Change]) -> None:
    for change in changes:
        if change.file:
            change.file.require_unchanged()
