"""Does a high COCO R@1 mean a high ECCV mAP@R? The published figures of models as a chart.

    python tools/experiments/published_scatter.py docs/assets/coco_and_eccv.svg

The 25 models of ECCV Caption have both metrics. open_clip's table has COCO alone: its checkpoints are marks at the
bottom, and the three that are models of ECCV Caption too have a second point, at open_clip's R@1.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from cxc_eccv.comparison import metric_agreement
from cxc_eccv.comparison.published import both_directions, eccv_caption_table, printed_table

SAME_MODEL = {
    "CLIP ViT-B/32": "ViT-B-32 openai",
    "CLIP ViT-B/16": "ViT-B-16 openai",
    "CLIP ViT-L/14": "ViT-L-14 openai",
}
"""Name in ECCV Caption's tables to name in open_clip's."""

NAMED = {"BLIP": -8, "VinVL": -8, "ViLT": 8, "PCME (CutMix)": -8, "VSRN": -8, "VSE0": 8}
"""Models with a label, and how many points it stands to the right."""

R1 = "coco_5k/recall_at_1"
MAP = "eccv_caption/map_at_r"
STYLE: Any = {"font.family": "DejaVu Sans", "svg.hashsalt": "cxc_eccv", "svg.fonttype": "path", "font.size": 9}


def main() -> None:
    """Draw the chart and print what it shows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chart", type=Path, help="SVG file")
    path = parser.parse_args().chart
    table = eccv_caption_table()
    recalls = table.scores_of(R1)
    maps = table.scores_of(MAP)
    tau = metric_agreement({R1: recalls, MAP: maps}).between(R1, MAP)
    further = open_clip_recalls()
    for ours, theirs in SAME_MODEL.items():
        print(f"R@1 of {ours}: {100 * recalls[ours]:.2f}; in open_clip's table {100 * further[theirs]:.2f}")
    print(f"tau-b of {len(recalls)} models: {tau:.2f}")
    draw(recalls, maps, further, tau, path)


def open_clip_recalls() -> dict[str, float]:
    """R@1 of COCO 5K, the mean of both directions, of every checkpoint."""
    table = printed_table("open_clip")
    recalls = {}
    for model in table.models:
        printed = {score.key: score.value for score in table.scores if score.model == model}
        recalls[model] = both_directions(printed, printed_decimals=table.decimals)[R1]
    return recalls


def draw(recalls: dict[str, float], maps: dict[str, float], further: dict[str, float], tau: float, path: Path) -> None:
    """A point per model of ECCV Caption, a mark per checkpoint of open_clip."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.5, 4.4), layout="constrained")
        axes = figure.add_subplot(xlabel="COCO 5K R@1, mean of both directions", ylabel="ECCV Caption mAP@R")
        axes.plot([100 * r for r in further.values()], [18.6] * len(further), "|", color="#B9BEC6", markersize=9)
        axes.text(1, 19.1, f"open_clip: {len(further)} checkpoints, mAP@R unknown", color="#4A515B", fontsize=8)
        axes.plot([100 * recalls[m] for m in maps], [100 * v for v in maps.values()], "o", color="#0072B2")
        for ours, theirs in SAME_MODEL.items():
            x = 100 * further[theirs]
            y = 100 * maps[ours]
            axes.plot(x, y, "D", color="#D55E00", markersize=9, fillstyle="none")
            axes.annotate(ours, (x, y), (-9, -3), textcoords="offset points", fontsize=8, ha="right")
        for model, right in NAMED.items():
            style: Any = {"textcoords": "offset points", "fontsize": 8, "ha": "left" if right > 0 else "right"}
            axes.annotate(model, (100 * recalls[model], 100 * maps[model]), (right, -3), **style)
        axes.set(xlim=(0, 76), ylim=(18, 45), title=f"25 models of ECCV Caption: tau-b {tau:.2f}")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
