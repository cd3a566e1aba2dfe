"""Programs of a push that are sent to each host: standard library only, Python 3.8 or newer."""
