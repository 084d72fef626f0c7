"""What a push would take away from a repository that has files already."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

import yaml
from huggingface_hub import HfApi

from cxc_eccv.builders.output import FORMAT, MANIFEST_NAME
from cxc_eccv.errors import DataError
from cxc_eccv.hub.card import BEGINS, CARD_FILE, ENDS, read_card
from cxc_eccv.hub.client import read_text
from cxc_eccv.hub.leaderboard import EVAL_YAML, FRAMEWORK, read_task_ids
from cxc_eccv.sources.readers import read_labels

PARQUET = ".parquet"


def find_removed(
    api: HfApi, repo_id: str, head: str, sent: Mapping[str, Path | bytes], folders: Collection[str]
) -> list[str]:
    """The files of the commit ``head`` that a push of the files ``sent`` removes.

    These are the Parquet files in ``folders``, the files that the manifest of an earlier push lists, and the
    ``eval.yaml`` of an earlier push.
    """
    listed = set()
    if manifest := _parse_manifest(read_text(api, repo_id, "dataset", MANIFEST_NAME, head)):
        listed = {MANIFEST_NAME, *manifest.get("files", ())}
    if _read_framework(read_text(api, repo_id, "dataset", EVAL_YAML, head)) == FRAMEWORK:
        listed.add(EVAL_YAML)
    present = api.list_repo_files(repo_id, repo_type="dataset", revision=head)
    shards = {path for path in present if path.endswith(PARQUET) and path.rpartition("/")[0] in folders}
    return [path for path in present if path in listed | shards and path not in sent and path != CARD_FILE]


def find_losses(
    api: HfApi, repo_id: str, head: str, sent: Mapping[str, Path | bytes], removed: Collection[str]
) -> list[str]:
    """What users of the commit ``head`` would miss after a push: another edition, fewer configs, splits or tasks."""
    present = api.list_repo_files(repo_id, repo_type="dataset", revision=head)
    before = _parse_manifest(read_text(api, repo_id, "dataset", MANIFEST_NAME, head))
    after = _parse_manifest(_read_sent(sent, MANIFEST_NAME))
    label_files = [path for path in present if path.endswith(PARQUET) and "/" not in path]
    losses = []
    if before and not after:
        losses.append("it is a dataset of `cxc-eccv build`, and this folder has labels")
    elif before and before["edition"] != after["edition"]:
        losses.append(f"its edition is {before['edition']!r}, and that of this folder is {after['edition']!r}")
    elif after and not before and label_files:
        losses.append(f"it has labels, {', '.join(label_files)}, which the card would no longer name")
    elif not before and not after:
        there = [Path(api.hf_hub_download(repo_id, path, repo_type="dataset", revision=head)) for path in label_files]
        editions = _read_editions(there)
        ours = _read_editions(file for path, file in sent.items() if path.endswith(PARQUET) and isinstance(file, Path))
        if editions - ours:
            losses.append(f"its labels are of the edition {', '.join(sorted(editions))}, and these are not")
    parts = {_name_part(path) for path in removed if path.endswith(PARQUET)}
    parts -= {_name_part(path) for path in sent if path.endswith(PARQUET)}
    if parts:
        losses.append(f"this folder lacks {', '.join(sorted(parts))}")
    declared = read_text(api, repo_id, "dataset", EVAL_YAML, head)
    if declared is not None and EVAL_YAML in {*removed, *sent}:
        text = _read_sent(sent, EVAL_YAML)
        kept = frozenset() if text is None else read_task_ids(text, EVAL_YAML)
        if tasks := read_task_ids(declared, f"{EVAL_YAML} of {repo_id}") - kept:
            losses.append(f"its {EVAL_YAML} would lose the tasks {', '.join(sorted(tasks))}")
    return losses


def find_card_losses(api: HfApi, repo_id: str, head: str, card: str, owned: Collection[str]) -> list[str]:
    """What people wrote in a model's card on the Hub that the card ``card`` lacks, outside the generated part.

    The keys ``owned`` of the front matter are generated.
    """
    text = read_text(api, repo_id, "model", CARD_FILE, head)
    if text is None:
        return []
    there = read_card(text, f"{CARD_FILE} of {repo_id}")
    here = read_card(card, CARD_FILE)
    written = GENERATED_PART.sub("", there.text)
    lines = set(here.text.split("\n"))
    losses = [
        f"its {CARD_FILE} says {shorten(line, 60, placeholder='...')!r}, and that of the folder does not"
        for line in written.split("\n")
        if line.strip() and line not in lines
    ]
    ours = vars(here.data)
    for key, value in vars(there.data).items():
        if key not in owned and ours.get(key) != value:
            losses.append(f"its {CARD_FILE} has {key}: {value!r}, and that of the folder {ours.get(key)!r}")
    return losses


GENERATED_PART = re.compile(rf"{BEGINS.pattern}.*?{ENDS.pattern}", re.MULTILINE | re.DOTALL)
"""The generated part of a card, with its marks."""


def _name_part(path: str) -> str:
    """Config and split of a shard of a build, or the name of a label file."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name.partition('-')[0]}" if folder else name


def _read_sent(sent: Mapping[str, Path | bytes], path: str) -> str | None:
    content = sent.get(path)
    if isinstance(content, Path):
        return content.read_text(encoding="utf-8")
    return None if content is None else content.decode()


def _parse_manifest(text: str | None) -> dict[str, Any]:
    """The manifest of a build; empty if the text is none."""
    try:
        manifest = json.loads(text or "")
        return manifest if manifest["format"] == FORMAT and "edition" in manifest else {}
    except (ValueError, KeyError, TypeError):
        return {}


def _read_framework(text: str | None) -> str | None:
    """The ``evaluation_framework`` of an ``eval.yaml``."""
    try:
        return str(yaml.safe_load(text or "")["evaluation_framework"])
    except (yaml.YAMLError, KeyError, TypeError):
        return None


def _read_editions(files: Iterable[Path]) -> set[str]:
    """The editions of the data that label files are of; files of others say none."""
    editions = set()
    for file in files:
        try:
            editions.add(str(read_labels(file).facts["data"]["edition"]))
        except (DataError, KeyError):
            continue
    return editions
