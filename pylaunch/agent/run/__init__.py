"""One run on this node: prepare, start ranks, decide what each event means, end."""
