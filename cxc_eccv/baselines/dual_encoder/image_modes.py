"""The modes of the training images: told before training, from the headers of their files."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cxc_eccv.baselines.dual_encoder.gathering import process_count, process_rank
from cxc_eccv.encoding.pictures import picture_mode
from cxc_eccv.encoding.processes import Processes

__all__ = ["warn_of_conversion"]


def warn_of_conversion(paths: Sequence[Path]) -> None:
    """Say how many images are of which other modes than RGB, once, before they are converted.

    Counting while training would lose what the data loader's workers count, and tell of a 16-bit image only when its
    turn comes. A header takes about 30 microseconds; processes share the files.

    Args:
        paths: all training images, the same on every process.

    Raises:
        SourceMissing: a file is missing.
        MalformedSource: a file is no image, or has more than 8 bits a channel; names it.

    Warns:
        UserWarning: images of other modes, on the first process.
    """
    processes = Processes(process_rank(), process_count())
    own = Counter(picture_mode(path) for path in paths[processes.rank :: processes.count])
    modes = sum(processes.gather(own), Counter[str]())
    modes.pop("RGB", None)
    if modes and processes.rank == 0:
        named = ", ".join(f"{mode} {count}" for mode, count in sorted(modes.items()))
        warnings.warn(
            f"{modes.total()} of {len(paths)} training images are not RGB and are converted: {named}", stacklevel=2
        )
