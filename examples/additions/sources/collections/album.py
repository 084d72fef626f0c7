"""Album: photographs with five captions each."""

from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.readers import read_karpathy

COLLECTION = Collection(
    name="album",
    title="Album",
    photographs="album",
    splits={"test": "test"},
    files=("album",),
    read=read_karpathy,
)
