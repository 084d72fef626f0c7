"""One runner per library: a ``PEER`` in a file of its name. A library is imported when it runs."""
