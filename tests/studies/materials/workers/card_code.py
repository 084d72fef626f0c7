"""Runs the Python code of models' cards; as a script, where this package cannot be imported.

python card_code.py OUTPUT FOLDER...     writes OUTPUT/0.npz and so on, and saves the models again in OUTPUT/0
"""

import importlib.util
import os
import re
import sys
from pathlib import Path

import numpy as np


def run_card(folder):
    """What the code of a card leaves in ``vectors`` or ``probability``, block by block, and its model."""
    os.chdir(folder.parent)
    names = {}
    results = []
    for code in re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL):
        exec(code, names)
        result = names["vectors" if "vectors" in names else "probability"]
        results.append(np.asarray(result.detach() if hasattr(result, "detach") else result))
    return results, names["model"]


if __name__ == "__main__":
    assert importlib.util.find_spec("cxc_eccv") is None
    output, *folders = map(Path, sys.argv[1:])
    for index, folder in enumerate(folders):
        results, model = run_card(folder)
        assert type(model).__module__.startswith("transformers_modules."), type(model)
        np.savez(output / f"{index}.npz", *results)
        model.save_pretrained(output / str(index))
