"""The YAML at the top of a card, and the text below it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from cxc_eccv.errors import HubError

__all__ = ["join", "merge", "parse", "replace", "split"]

FENCE = "---"


def split(card: str) -> tuple[str, str]:
    r"""Split a card into front matter without its fences, and the rest; line ends become plain.

    Example:
        >>> split("---\nlicense: mit\n---\n# Title\n")
        ('license: mit', '# Title\n')
        >>> split("# Title\n")
        ('', '# Title\n')
    """
    text = card.lstrip("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    if lines[0].rstrip() == FENCE and FENCE in (ends := [line.rstrip() for line in lines[1:]]):
        end = ends.index(FENCE) + 1
        return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])
    return "", text


def join(matter: str, body: str) -> str:
    r"""Make a card from its two parts.

    Example:
        >>> join("license: mit", "# Title")
        '---\nlicense: mit\n---\n\n# Title\n'
    """
    head = f"{FENCE}\n{matter.strip(chr(10))}\n{FENCE}\n\n" if matter.strip() else ""
    return head + body.strip("\n") + "\n"


def parse(matter: str, where: str) -> dict[str, Any]:
    """Read the mapping that front matter holds.

    Args:
        matter: as :func:`split` gives it.
        where: which card, for the message.

    Raises:
        HubError: not YAML, or not a mapping.

    Example:
        >>> parse("license: mit", "README.md")
        {'license': 'mit'}
    """
    try:
        metadata = yaml.safe_load(matter) or {}
    except yaml.YAMLError as error:
        raise HubError(f"{where}: its front matter is not valid YAML. Correct it. {error}") from None
    if not isinstance(metadata, dict):
        raise HubError(f"{where}: its front matter is {type(metadata).__name__}, not a mapping. Correct it.")
    return metadata


KEY = re.compile(r"^(?P<quote>['\"]?)(?P<key>[^\s#'\"-][^:'\"]*)(?P=quote)\s*:(\s|$)")


def merge(ours: str, theirs: str, owned: tuple[str, ...], where: str) -> str:
    r"""Give front matter of the Hub's card our values of the keys we own, and of those it lacks.

    Args:
        ours: generated front matter.
        theirs: front matter of the Hub's card.
        owned: keys that must describe the files, so that ours replace theirs.
        where: which card of theirs, for messages.

    Raises:
        HubError: theirs is not a YAML mapping.

    Example:
        >>> merge("license: mit\nconfigs: [b]", "# mine\nlicense: other\nconfigs: [a]", ("configs",), "README.md")
        '# mine\nlicense: other\nconfigs:\n- b'
    """
    generated, kept = parse(ours, "the generated card"), parse(theirs, where)
    changed = {key: value for key, value in generated.items() if key in owned or key not in kept}
    gone = [key for key in owned if key in kept and key not in generated]
    return replace(theirs, changed, where, gone)


def replace(matter: str, changed: Mapping[str, Any], where: str, gone: list[str] | None = None) -> str:
    r"""Give front matter other values for some keys; all other lines, comments among them, stay as they are.

    Args:
        matter: as :func:`split` gives it.
        changed: key to value; unknown keys are added at the end.
        where: which card, for messages.
        gone: keys to remove.

    Raises:
        HubError: it is not a YAML mapping.

    Example:
        >>> print(replace("a: 1 # mine\nb:\n- 2", {"b": [3], "c": 4}, "README.md"))
        a: 1 # mine
        b:
        - 3
        c: 4
    """
    before = parse(matter, where)
    after = {key: value for key, value in {**before, **changed}.items() if key not in (gone or ())}
    if after == before:
        return matter
    blocks = _blocks(matter)
    for key, value in changed.items():
        if key not in before or before[key] != value:
            blocks[key] = "\n".join([_dump({key: value}), *_comments_below(blocks.get(key, ""))])
    for key in gone or ():
        blocks.pop(key, None)
    text = "\n".join(block for block in blocks.values() if block)
    # Anchors, tags or a flow mapping that spans keys cannot be cut into lines: then everything is written anew.
    return text if _reads_as(text, after) else _dump(after)


def _blocks(matter: str) -> dict[str, str]:
    """Lines by the top-level key they belong to; comments belong to the key above, those at the top to none."""
    lines: dict[str, list[str]] = {"": []}
    current = ""
    for line in matter.split("\n"):
        match = KEY.match(line)
        if match:
            current = match["key"].strip()
        lines.setdefault(current, []).append(line)
    return {key: "\n".join(block) for key, block in lines.items()}


def _comments_below(block: str) -> list[str]:
    """Whole-line comments that stand in a block, most likely above the next key."""
    return [line for line in block.split("\n") if line.startswith("#")]


def _dump(metadata: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=True, width=120)
    return text.rstrip("\n")


def _reads_as(text: str, metadata: Mapping[str, Any]) -> bool:
    try:
        return bool(yaml.safe_load(text) == metadata)
    except yaml.YAMLError:
        return False
