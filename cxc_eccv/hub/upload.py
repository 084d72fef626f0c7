"""Upload of a dataset, of labels, of a model or of a metric's Space, in one commit that keeps what people wrote.

The client of the Hub sends only what changed, and no file twice.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.constants import SPACES_SDK_TYPES
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from cxc_eccv import registry, version
from cxc_eccv.builders.dataset_cards import point_examples
from cxc_eccv.builders.dataset_config import dataset_configs
from cxc_eccv.builders.output import FORMAT, MANIFEST_NAME, list_departures
from cxc_eccv.errors import InvalidOption
from cxc_eccv.hub import leaderboard
from cxc_eccv.hub.answers import count_answers, drop_answers, drop_answers_in_card
from cxc_eccv.hub.card import CARD_FILE, merge_card, read_card
from cxc_eccv.hub.client import hub_client, read_text, require_owner, require_token
from cxc_eccv.hub.leaderboard import EVAL_YAML
from cxc_eccv.hub.replacing import find_card_losses, find_losses, find_removed
from cxc_eccv.report.files import REPORT
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.sources.library import Library
from cxc_eccv.writing import WRITTEN_RECORD, recorded_folder

LABELS_KEYS = ("configs", "dataset_info", "size_categories")
DATASET_KEYS = (*LABELS_KEYS, "modified_data")
SPACE_KEYS = ("sdk", "sdk_version", "python_version", "app_file")

MODEL_KEYS = ("base_model", "datasets", "model-index")

MODEL_FILES = ("config.json", "modules.json")
"""A folder with one of them is a model of transformers or sentence-transformers."""

LEFT_OUT = ("__pycache__", ".git", ".cache", ".DS_Store", ".gitattributes", WRITTEN_RECORD)
"""Names that are not uploaded, at any depth; the Hub has its own .gitattributes."""

TOY = "This is toy data: it was made from the embedded sample, drawings of coloured shapes, and not from MS-COCO."


@dataclass(frozen=True, slots=True)
class Upload:
    """What a push sends to a repository.

    Attributes:
        repo_id, repo_type: the repository, a ``dataset``, a ``model`` or a ``space``.
        files: path in the repository to a file or its content, without the card.
        card: the generated card; on the Hub its text is put between the marks, beside what people wrote.
        owned: keys of the card's front matter that describe the files.
        folders: folders of the repository in which other Parquet files, of an earlier push, are removed.
        left_out: files of the local folder that are not sent.
        space_sdk: SDK of a new Space.
        next_steps: what to do afterwards.
        notes: what to know before the upload.
        asks_for_answers: whether somebody must decide first if people's answers are uploaded.
        is_toy: whether it was made from the embedded sample.
    """

    repo_id: str
    repo_type: str
    files: Mapping[str, Path | bytes]
    card: str
    owned: tuple[str, ...]
    folders: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()
    space_sdk: str | None = None
    next_steps: str = ""
    notes: tuple[str, ...] = ()
    asks_for_answers: bool = False
    is_toy: bool = False

    def __str__(self) -> str:
        paths = sorted([CARD_FILE, *self.files])
        lines = [f"{self.repo_type} {self.repo_id}: {len(paths)} files", *(f"  {path}" for path in paths)]
        if self.is_toy:
            lines = [TOY, *lines]
        lines += [f"  left out: {path}" for path in self.left_out]
        return "\n".join([*lines, *self.notes])

    def describe_changes(self) -> str:
        """What :meth:`send` would remove from the repository, and whether it needs ``replace``; it changes nothing."""
        if self.repo_type == "space":
            return ""
        with hub_client(f"read {self.repo_type} {self.repo_id}") as api:
            try:
                head = str(api.repo_info(self.repo_id, repo_type=self.repo_type).sha)
            except GatedRepoError:
                raise
            except RepositoryNotFoundError:
                return f"{self.repo_id} is new, or there is no permission to read it."
            removed, losses = self._find_changes(api, head)
        lines = [f"  removed from the Hub: {path}" for path in removed]
        if losses:
            lines += ["Needs --replace, because of what is on the Hub:", *(f"  - {loss}" for loss in losses)]
        return "\n".join(lines)

    def send(self, *, private: bool | None = None, replace: bool = False) -> str:
        """Create the repository if it is not there, upload in one commit, and return the repository's address.

        Calling it again is safe: files on the Hub are not sent twice.

        Args:
            private: visibility of a new repository; None for the owner's default.
            replace: whether the push may replace another edition, or leave fewer configs, splits or tasks.

        Raises:
            InvalidOption: the push needs ``replace``, or a decision on people's answers.
        """
        if self.asks_for_answers:
            raise InvalidOption(
                f"{' '.join(self.notes)} Say with --with-answers or --without-answers (answers=True or False) whether "
                "they are published. Nothing was sent."
            )
        require_token()
        with hub_client(f"upload to {self.repo_type} {self.repo_id}") as api:
            url = api.create_repo(
                self.repo_id, repo_type=self.repo_type, private=private, space_sdk=self.space_sdk, exist_ok=True
            )
            is_private = api.repo_info(self.repo_id, repo_type=self.repo_type).private
            if private is not None and is_private != private:
                visibility = "private" if is_private else "public"
                raise InvalidOption(
                    f"{self.repo_id} is {visibility}, and a push does not change that. Change it in the repository's "
                    "settings on the Hub, or leave out the option. Nothing was sent."
                )
            history = api.list_repo_commits(self.repo_id, repo_type=self.repo_type)
            head = history[0].commit_id
            removed, losses = self._find_changes(api, head)
            if losses and not replace:
                raise InvalidOption(
                    f"{self.repo_id} has what this push would take away: {'; '.join(losses)}. Nothing was sent. "
                    "Complete the folder, name another repository, or add --replace (replace=True)."
                )
            # The first commit is the Hub's: nobody wrote its card by hand.
            by_hand = len(history) > 1
            existing = read_text(api, self.repo_id, self.repo_type, CARD_FILE, head) if by_hand else None
            card = self._join_card(existing, f"{CARD_FILE} of {self.repo_id}")
            additions = [CommitOperationAdd(path, content) for path, content in self.files.items()]
            deletions = [CommitOperationDelete(path) for path in removed]
            api.create_commit(
                self.repo_id,
                repo_type=self.repo_type,
                operations=[*additions, CommitOperationAdd(CARD_FILE, card.encode()), *deletions],
                commit_message=f"Upload with cxc_eccv {version.__version__}",
                parent_commit=head,
            )
        return str(url)

    def write(self, folder: Path) -> None:
        """Write to a folder what :meth:`send` uploads to a new repository."""
        contents = {**self.files, CARD_FILE: self._join_card(None, CARD_FILE).encode()}
        with recorded_folder(folder, contents) as part:
            for path, content in contents.items():
                (part / path).parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, bytes):
                    (part / path).write_bytes(content)
                else:
                    shutil.copyfile(content, part / path)

    def _find_changes(self, api: HfApi, head: str) -> tuple[list[str], list[str]]:
        """The files that a push removes, and what makes it need ``replace``."""
        if self.repo_type == "model":
            return [], find_card_losses(api, self.repo_id, head, self.card, self.owned)
        if self.repo_type == "space":
            return [], []
        removed = find_removed(api, self.repo_id, head, self.files, self.folders)
        return removed, find_losses(api, self.repo_id, head, self.files, removed)

    def _join_card(self, existing: str | None, where: str) -> str:
        """The card to send. That of a model has its marks already: people write in the folder's."""
        return self.card if self.repo_type == "model" else merge_card(self.card, existing, self.owned, where)


def plan_upload(
    folder: str | Path, repo_id: str, repo_type: str | None = None, *, answers: bool | None = None
) -> Upload:
    """Read a folder of ``cxc-eccv build``, of labels, of a model, or of a Space, without the network.

    Without a ``repo_type``, a folder with the files of a model is one, and any other is a dataset.
    ``answers`` says whether people's answers in files of labels are uploaded; :meth:`Upload.send` needs a decision.

    Raises:
        InvalidOption: the folder is none of these, or lacks files.
    """
    folder = Path(folder)
    require_owner(repo_id)
    if not folder.is_dir():
        metric = folder.name in registry.metrics() and folder.name == str(folder)
        hint = "; to upload the Space of the metric of this name, add --type space" if metric else ""
        raise InvalidOption(f"{folder} is not a folder{hint}")
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    files = {path: file for path, file in files.items() if not set(path.split("/")) & set(LEFT_OUT)}
    if repo_type == "space":
        return _plan_space(repo_id, folder, files)
    is_model = any(path in files for path in MODEL_FILES)
    if repo_type == "model" or (repo_type is None and is_model and MANIFEST_NAME not in files):
        if not is_model:
            raise InvalidOption(f"{folder} is no model: it has no {' or '.join(MODEL_FILES)}")
        return _plan_model(repo_id, folder, files)
    if repo_type not in ("dataset", None):
        raise InvalidOption(f"repository type {repo_type!r}: expected 'dataset', 'model' or 'space'")
    if REPORT in files:
        raise InvalidOption(f"{folder} is a report; to propose its results, run cxc-eccv submit {folder}")
    if MANIFEST_NAME in files:
        return _plan_dataset(repo_id, folder, files)
    if any(re.fullmatch(r"[^/]+\.parquet", path) for path in files):
        return _plan_labels(repo_id, folder, files, answers)
    raise InvalidOption(
        f"{folder} has no {MANIFEST_NAME}, so `cxc-eccv build` did not write it. Name a folder that it wrote, a "
        "folder of labels or of a model, or the folder of a metric with --type space."
    )


def _plan_dataset(repo_id: str, folder: Path, files: Mapping[str, Path]) -> Upload:
    """The files that the build's manifest lists, and ``eval.yaml`` of the plain build of the official data alone."""
    again = "Build the folder again with `cxc-eccv build`."
    try:
        manifest = json.loads(files[MANIFEST_NAME].read_text(encoding="utf-8"))
        form, configs, listed, edition = (manifest[name] for name in ("format", "configs", "files", "edition"))
        departures = list_departures(manifest)
    except (ValueError, KeyError, TypeError, AttributeError):
        form = None
    if form != FORMAT:
        raise InvalidOption(f"{folder / MANIFEST_NAME} does not have the format {FORMAT!r}. {again}")
    if missing := [path for path in listed if path not in files]:
        raise InvalidOption(f"{folder} lacks {', '.join(missing[:3])}, which its {MANIFEST_NAME} lists. {again}")
    sent: dict[str, Path | bytes] = {path: files[path] for path in (*listed, MANIFEST_NAME) if path != CARD_FILE}
    own_framework = EVAL_YAML not in sent
    if departures:
        sent.pop(EVAL_YAML, None)
    elif own_framework:
        sent[EVAL_YAML] = leaderboard.eval_yaml(configs).encode()
    return Upload(
        repo_id,
        "dataset",
        sent,
        point_examples(files[CARD_FILE].read_text(encoding="utf-8"), repo_id),
        DATASET_KEYS,
        frozenset({*dataset_configs(), *configs}),
        _left_out(files, sent),
        next_steps=_steps_to_a_leaderboard(departures, own_framework=own_framework),
        notes=_list_not_built(manifest),
        is_toy=edition == SAMPLE,
    )


def _plan_labels(repo_id: str, folder: Path, files: Mapping[str, Path], answers: bool | None) -> Upload:
    """The label files and the card; other files of an annotation project stay here."""
    label_paths = {path: file for path, file in files.items() if re.fullmatch(r"[^/]+\.parquet", path)}
    label_files = Library(labels=[folder.resolve()]).label_files.values()
    editions = {file.facts["data"]["edition"] for file in label_files if not file.is_plain}
    if CARD_FILE not in files:
        raise InvalidOption(f"{folder} has labels but no {CARD_FILE}; cxc-eccv annotate merge writes both")
    card = files[CARD_FILE].read_text(encoding="utf-8")
    sent = dict[str, Path | bytes](label_paths)
    sentences = count_answers(label_paths)
    notes = [f"{sentence}." for sentence in sentences.values()]
    if answers is False and sentences:
        sent |= {path: drop_answers(label_paths[path]) for path in sentences}
        card = drop_answers_in_card(card, str(folder / CARD_FILE))
        notes = [f"{path} is uploaded without people's answers." for path in sentences]
    return Upload(
        repo_id,
        "dataset",
        sent,
        point_examples(card, repo_id).replace("--labels PATH_OR_NAME ", f"--labels {repo_id} "),
        LABELS_KEYS,
        frozenset([""]),
        _left_out(files, sent),
        next_steps=f"Load these labels with --labels {repo_id}",
        notes=tuple(notes),
        asks_for_answers=answers is None and bool(sentences),
        is_toy=SAMPLE in editions,
    )


def _plan_model(repo_id: str, folder: Path, files: Mapping[str, Path]) -> Upload:
    """All files of a model with its card, as training wrote them; checkpoints of the training stay here."""
    if CARD_FILE not in files:
        raise InvalidOption(f"{folder} has no {CARD_FILE}. `cxc-eccv train` writes one; else describe the model in it.")
    sent = {path: file for path, file in files.items() if path != CARD_FILE and not path.startswith("checkpoint-")}
    card = files[CARD_FILE].read_text(encoding="utf-8")
    return Upload(
        repo_id,
        "model",
        sent,
        card,
        MODEL_KEYS,
        left_out=_left_out(files, sent),
        next_steps=f"Load the model by its name, {repo_id}",
    )


def _plan_space(repo_id: str, folder: Path, files: Mapping[str, Path]) -> Upload:
    """All files of a Space; its card must name the SDK."""
    if CARD_FILE not in files:
        raise InvalidOption(f"{folder} has no {CARD_FILE}. A Space needs one with `sdk: gradio` in its front matter.")
    card = files[CARD_FILE].read_text(encoding="utf-8")
    sdk = read_card(card, str(folder / CARD_FILE)).data.get("sdk")
    if sdk not in SPACES_SDK_TYPES:
        raise InvalidOption(f"{folder / CARD_FILE}: sdk is {sdk!r}, expected one of {', '.join(SPACES_SDK_TYPES)}")
    sent = {path: file for path, file in files.items() if path != CARD_FILE}
    return Upload(repo_id, "space", sent, _point_metric(card, repo_id, files), SPACE_KEYS, space_sdk=sdk)


LOAD_METRIC = re.compile(
    r"""(?:import cxc_eccv as ce\n)?(import evaluate\n\nmetric = evaluate\.load\()(?:ce\.metric\()?"(\w+)"\)+$""",
    re.MULTILINE,
)
"""How the card of a metric's Space loads it from the package, or from a folder."""


def _point_metric(card: str, repo_id: str, files: Mapping[str, Path]) -> str:
    """Change the example of a metric's card to load the metric from the Space."""
    example = LOAD_METRIC.search(card)
    if example is None or f"{example[2]}.py" not in files:
        return card
    return card.replace(example[0], f'{example[1]}"{repo_id}")')


def _left_out(files: Iterable[str], sent: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(path for path in files if path not in sent and path != CARD_FILE)


def _list_not_built(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Configs and splits that the build lacks, with the reason: what was missing, or that they were not asked for."""
    by_reason: dict[str, list[str]] = {}
    for part in manifest.get("not_built", ()):
        by_reason.setdefault(part["reason"], []).append(f"{part['config']}/{part['split']}")
    described = {part["config"] for part in manifest.get("not_built", ())} | set(manifest["configs"])
    if not described.isdisjoint(dataset_configs()):  # other layouts have other configs
        absent = [name for name in dataset_configs() if name not in described]
        by_reason |= {"not among the configs that were asked for": absent} if absent else {}
    return tuple(f"not built ({reason}): {', '.join(names)}" for reason, names in by_reason.items())


def _steps_to_a_leaderboard(departures: Sequence[str], *, own_framework: bool) -> str:
    """What people must do before the Hub shows a leaderboard."""
    if departures:
        reasons = "\n".join(f"  - {departure}" for departure in departures)
        return f"It is no benchmark, so no results can be submitted to it. It was built with\n{reasons}"
    unknown = (
        f"The Hub must know the evaluation_framework {leaderboard.FRAMEWORK!r}. If its list lacks the name, add it "
        f"with a pull request:\n   {leaderboard.FRAMEWORK_LIST}"
    )
    steps = [
        "Make the dataset public, in its settings on the Hub.",
        *([unknown] if own_framework else []),
        "Ask the Hub's staff to activate the leaderboard, in the discussion that collects new benchmarks:\n"
        f"   {leaderboard.ACTIVATION}",
    ]
    listed = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    return f"To do once before the Hub shows a leaderboard:\n{listed}"
