"""A command on two processes of torchrun, which is to end well."""

import os
import subprocess
import sys

LAUNCH = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]


def torchrun(*arguments, folder=None):
    """What it printed."""
    alone = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment = {**os.environ, **alone, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *LAUNCH, "--rdzv-endpoint", "localhost:0", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done
