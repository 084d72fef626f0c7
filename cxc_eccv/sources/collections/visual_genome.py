"""Visual Genome: its images in COCO with COCO's captions; descriptions of their regions represent them."""

from dataclasses import replace

from cxc_eccv.sources.collections import coco
from cxc_eccv.sources.readers import read_region_descriptions

VISUAL_GENOME_FILES = ("visual_genome_regions", "visual_genome_image_data")

COLLECTION = replace(
    coco.COLLECTION,
    name="visual_genome",
    title="Visual Genome in COCO",
    descriptions=(VISUAL_GENOME_FILES, read_region_descriptions),
    labels=VISUAL_GENOME_FILES,
    entailment="",
    mined="",
    is_default=False,
)
