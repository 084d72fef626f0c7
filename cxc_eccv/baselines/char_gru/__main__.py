"""``python -m cxc_eccv.baselines.char_gru``: the options of the training script."""

from __future__ import annotations

import sys

from cxc_eccv.baselines.char_gru.script import train

if __name__ == "__main__":
    train(sys.argv[1:])
