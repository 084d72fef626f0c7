"""Push: a built dataset folder, or the folder of a metric's Space, to a repository on the Hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete

import cxc_eccv
from cxc_eccv.errors import HubConflict, HubError, HubUnavailable, InvalidOption
from cxc_eccv.hub.client import TRIES, Access, Repository, wait_before_next
from cxc_eccv.hub.leaderboard import FRAMEWORK
from cxc_eccv.hub.upload.plan import Change, UploadContent, UploadPlan, dataset_content, space_content, upload_plan

__all__ = ["Push", "carried_out", "planned_push"]


@dataclass(frozen=True, slots=True)
class Push:
    """An upload that was looked at and not made yet.

    Attributes:
        plan: what it would change; print it.
        content: what the repository shall hold.
        private: visibility of a repository that is made for it; None for the owner's default.
    """

    plan: UploadPlan
    content: UploadContent
    private: bool | None = None

    @property
    def url(self) -> str:
        """Where the repository is on the web."""
        repository = self.plan.repository
        return f"{repository.access.endpoint}/{repository.repo_type}s/{repository.repo_id}"

    def carry_out(self) -> UploadPlan:
        """Upload, in one commit: the repository holds either what it held, or everything new.

        Interrupted or failed, call it again: what the Hub has is not sent twice.

        Returns:
            The plan that was carried out.

        Raises:
            HubAccessDenied: no token, or one that may not write there.
            HubConflict: somebody else keeps changing the repository, or edited the generated part of the card.
            HubUnavailable: the Hub does not answer, although asked several times.
            HubError: it refuses what was sent.
            InvalidOption: a file changed while it was being uploaded.
        """
        repository, plan = self.plan.repository, self.plan
        repository.access.require_token()
        if plan.parent is None:
            repository.create(private=self.private, space_sdk=self.content.space_sdk)
            plan = upload_plan(repository, self.content)
        message = f"Upload with cxc_eccv {cxc_eccv.__version__}"
        return carried_out(plan, lambda: upload_plan(repository, self.content), message)


def planned_push(
    folder: str | Path,
    repo_id: str,
    repo_type: str = "dataset",
    *,
    access: Access | None = None,
    private: bool | None = None,
    framework: str = FRAMEWORK,
) -> Push:
    """Look at a folder and at the repository on the Hub, and plan the upload; changes nothing.

    The card is merged: its generated part, between two comments, is replaced, whatever was written by hand outside of
    it is kept, and so are the keys of its front matter that do not describe the files.

    Args:
        folder: what ``build_folder`` wrote, or the folder of a Space such as ``metrics/map_at_r``.
        repo_id: ``owner/name``.
        repo_type: ``dataset`` or ``space``.
        access: which Hub, with which token; by default as ``hf auth login`` or ``HF_TOKEN`` and ``HF_ENDPOINT`` say.
        private: visibility of a repository that is made; None for the owner's default.
        framework: name of the evaluation in ``eval.yaml``, from the Hub's own list.

    Raises:
        InvalidOption: the folder is not such a one, changed since it was built, or holds a link or the token.
        HubConflict: somebody edited the generated part of the card.
        HubError: the Hub, or the way to it, failed.
    """
    place = access or Access()
    if repo_type == "dataset":
        content = dataset_content(Path(folder), place.token, framework)
        repository = Repository(repo_id, "dataset", place)
    elif repo_type == "space":
        content = space_content(Path(folder), place.token)
        repository = Repository(repo_id, "space", place)
    else:
        raise InvalidOption(f"repository type {repo_type!r}: this package pushes 'dataset' and 'space'")
    return Push(upload_plan(repository, content), content, private)


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
