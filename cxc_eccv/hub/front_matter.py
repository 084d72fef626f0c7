"""The YAML at the top of a card, and the text below it."""

from __future__ import annotations

from typing import Any

import yaml

from cxc_eccv.errors import HubError

__all__ = ["joined", "parsed", "split"]

FENCE = "---"


def split(card: str) -> tuple[str, str]:
    r"""Front matter without its fences, and the rest; line ends become plain.

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


def joined(matter: str, body: str) -> str:
    r"""A card from its two parts.

    Example:
        >>> joined("license: mit", "# Title")
        '---\nlicense: mit\n---\n\n# Title\n'
    """
    head = f"{FENCE}\n{matter.strip(chr(10))}\n{FENCE}\n\n" if matter.strip() else ""
    return head + body.strip("\n") + "\n"


def parsed(matter: str, where: str) -> dict[str, Any]:
    """The mapping that front matter holds.

    Args:
        matter: as :func:`split` gives it.
        where: which card, for the message.

    Raises:
        HubError: not YAML, or not a mapping.

    Example:
        >>> parsed("license: mit", "README.md")
        {'license': 'mit'}
    """
    try:
        metadata = yaml.safe_load(matter) or {}
    except yaml.YAMLError as error:
        raise HubError(f"{where}: its front matter is not valid YAML. Correct it. {error}") from None
    if not isinstance(metadata, dict):
        raise HubError(f"{where}: its front matter is {type(metadata).__name__}, not a mapping. Correct it.")
    return metadata
