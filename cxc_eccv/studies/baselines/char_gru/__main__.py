"""``python -m cxc_eccv.studies.baselines.char_gru``: the same as ``cxc-eccv train char-gru``."""

import sys

from cxc_eccv.cli import main

if __name__ == "__main__":
    main(["train", "char-gru", *sys.argv[1:]])
