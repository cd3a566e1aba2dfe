"""One node as a container of this machine."""
