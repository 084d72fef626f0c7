#!/usr/bin/env bash
# The one command for a machine with a GPU: runs the tests marked gpu, then the benches of encoding, training and
# ranking, and prints one table for tools/bench/README.md. Without a GPU these tests are skipped by name, and the benches
# run small on the processor: a few minutes. PYTHON names the interpreter; further arguments go to pytest.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="${PYTHON:-python}"
export HF_HUB_OFFLINE=1
mapfile -t files < <(grep -rlE 'mark\.gpu\b' tests --include='test_*.py')
"$python" -m pytest -n 0 -q -rs -p no:cacheprovider -m gpu "${files[@]}" "$@" >&2

if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    encoding=(--captions 25000 --images 2000 --repeat 3)
    models=("clip-vit-base-patch32 --batch-size 256" "efficientnet-b4-bert-base --batch-size 128")
else
    encoding=(--captions 100 --images 32)
    models=("tiny --batch-size 16 --steps 5")
fi
rows=$("$python" tools/bench/encoding.py --rows "${encoding[@]}")
for model in "${models[@]}"; do
    # shellcheck disable=SC2086 # options of a model are words
    rows+=$'\n'$("$python" tools/bench/training.py --rows --model $model)
done
rows+=$'\n'$("$python" tools/bench/large_gallery.py --work devices)

"$python" - <<'END'
import os, platform, torch
from cxc_eccv.studies.trainers.trainer import count_cores

gpus = torch.cuda.device_count()
card = f"{gpus} x {torch.cuda.get_device_name()}" if gpus else f"{count_cores()} cores ({platform.machine()}), no GPU"
print(f"{card}; torch {torch.__version__}:\n\n| work | figure | ratio |\n|---|---|---|")
END
printf '%s\n' "$rows"
