"""One run on this node: prepare it, start its ranks, apply events to its lifecycle, end it."""
