"""Evidence about ranks: their processes, stacks, sockets and states."""
