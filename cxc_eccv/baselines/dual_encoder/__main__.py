"""``python -m cxc_eccv.baselines.dual_encoder``; under torchrun, one process per device."""

import sys

from cxc_eccv.baselines.dual_encoder.script import train

if __name__ == "__main__":
    train(sys.argv[1:])
