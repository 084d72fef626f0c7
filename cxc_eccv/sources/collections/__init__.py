"""The collections of images and captions: one ``COLLECTION`` per file, found by its place."""
