"""Run as a module: the same as ``cxc-eccv train entailment-classifier``."""

import sys

from cxc_eccv.cli import main

if __name__ == "__main__":
    main(["train", "entailment-classifier", *sys.argv[1:]])
