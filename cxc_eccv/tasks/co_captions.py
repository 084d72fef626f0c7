"""Co-captions: text-text retrieval with the original COCO links."""

from cxc_eccv.judgments.qrels import coco_links
from cxc_eccv.tasks.task import Part, Task

TASK = Task(
    name="co_captions",
    title="Co-captions",
    description=(
        "Text-text retrieval on a COCO Karpathy split with the other captions of the query's image as positives. The "
        "query is left out of its gallery. It is the row MS-COCO in the text-text results of the Crisscrossed Captions "
        "paper; cxc/t2t, which adds the rated pairs, is the row CxC."
    ),
    parts=(Part("t2t", ranks=coco_links),),
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank"),
    main_metric="recall_at_1",
    citation="Parekh et al., EACL 2021, arXiv:2004.15020; Lin et al., ECCV 2014, arXiv:1405.0312",
    licence="CC BY 4.0 (COCO Consortium)",
    sources=("karpathy",),
    label_sources=("coco",),
    config="captions",
)
