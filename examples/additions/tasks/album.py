"""Album: the original links."""

from cxc_eccv.judgments.merging import original_links
from cxc_eccv.sources.collections.album import COLLECTION
from cxc_eccv.tasks.task import Part, Task
from cxc_eccv.types import CROSS_MODAL

TASK = Task(
    name="album",
    title="Album",
    description="Image-text retrieval on the album. A caption is positive only for the image it was written for.",
    parts=tuple(Part(direction, ranks=original_links) for direction in CROSS_MODAL),
    splits=("test",),
    metrics=("recall_at_k",),
    main_metric="recall_at_1",
    citation="Author, venue, year",
    licence="CC BY 4.0",
    sources=("album",),
    collection=COLLECTION,
)
