"""Co-captions: text-text retrieval under the original COCO links alone."""

from functools import partial

from cxc_eccv.judgments.qrels import coco_links
from cxc_eccv.tasks.task import Task

TASK = Task(
    name="co_captions",
    title="Co-captions",
    description=(
        "Text-text retrieval on all captions of a COCO Karpathy split with the original links alone: positive are the "
        "other captions of the query's image, and the query is left out of its gallery. The row MS-COCO of the "
        "Crisscrossed Captions paper's text-text results; its row CxC, which adds the rated pairs, is cxc/t2t."
    ),
    directions={"t2t": partial(coco_links, direction="t2t")},
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank"),
    main_metric="recall_at_1",
    citation="Parekh et al., EACL 2021, arXiv:2004.15020; Lin et al., ECCV 2014, arXiv:1405.0312",
    licence="CC BY 4.0 (COCO Consortium)",
    sources=("karpathy",),
    label_sources=("coco",),
    config="captions",
)
