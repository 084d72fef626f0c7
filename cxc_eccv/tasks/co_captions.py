"""Co-captions: text-text retrieval with the original COCO links."""

from cxc_eccv.judgments.merging import coco_links
from cxc_eccv.tasks.task import Part, Task

TASK = Task(
    name="co_captions",
    title="Co-captions",
    description=(
        "Retrieval of the other captions of a caption's image, among all captions of a COCO Karpathy split. The query "
        "is left out of its gallery. Tables of Crisscrossed Captions call this row MS-COCO, and cxc/t2t, which adds "
        "the rated pairs, CxC."
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
