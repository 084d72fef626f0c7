"""A conformance kit: fixed embeddings, our values, and why other libraries print others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cxc_eccv.discovery import find_declared
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.integrations.conformance import peers as peer_files
from cxc_eccv.integrations.conformance.expected import check_ours, expected_values, kit_files
from cxc_eccv.integrations.conformance.kit import Part, parts
from cxc_eccv.integrations.conformance.peer import Comparison, Peer, compare, comparison_tables

__all__ = [
    "Comparison",
    "Part",
    "Peer",
    "choose",
    "compare",
    "comparison_tables",
    "expected_values",
    "kit_files",
    "parts",
    "peers",
    "run_kit",
]

FEWEST = 20
"""Images of the smallest kit: a query's top 10 must exist."""


def peers() -> Mapping[str, Peer]:
    """Name to runner of every library."""
    return find_declared(peer_files, "PEER", Peer)


def choose(names: Sequence[str] | None) -> list[Peer]:
    """The runners of these libraries, or all.

    Raises:
        UnknownName: there is no runner of this name.
    """
    known = peers()
    for name in names or ():
        if name not in known:
            raise UnknownName("library", name, known)
    return [known[name] for name in names or known]


def run_kit(chosen: Collection[Peer], n_images: int = 5_000) -> list[Comparison]:
    """Compare the installed ones of these libraries with our values.

    Args:
        chosen: runners; one whose library is not installed is left out.
        n_images: size of the kit, which has five captions an image.

    Returns:
        A comparison per library, labels, direction and metric, in the order of the libraries.

    Raises:
        InvalidOption: the kit has fewer than 20 images.
        DataError: our values are not those of ``expected.json``.

    Example:
        >>> rows = run_kit(choose(["pytrec_eval"]), 40)
        >>> [row.why for row in rows if row.why is None]
        []
    """
    if n_images < FEWEST:
        raise InvalidOption(f"the kit needs at least {FEWEST} images, not {n_images}")
    installed = [peer for peer in chosen if peer.version is not None]
    rows = []
    for part in parts(n_images):
        check_ours(part, n_images)
        rows += [row for peer in installed for row in compare(peer, part)]
        del part  # the scores of one direction at a time
    order = [peer.name for peer in installed]
    return sorted(rows, key=lambda row: order.index(row.library))
