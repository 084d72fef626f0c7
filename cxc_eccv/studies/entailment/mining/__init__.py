"""Mining weak positives: captions of other images that a retriever ranks high and a classifier judges entailed."""
