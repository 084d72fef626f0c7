"""``python -m cxc_eccv.studies.baselines.dual_encoder``: the same as ``cxc-eccv train dual-encoder``."""

import sys

from cxc_eccv.cli import main

if __name__ == "__main__":
    main(["train", "dual-encoder", *sys.argv[1:]])
