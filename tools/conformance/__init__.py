"""A conformance kit: fixed embeddings, our values under four rules for ties, and why other libraries print others."""
