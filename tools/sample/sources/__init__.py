"""The raw files of the sample, one source per file, each in the layout of the real one."""
