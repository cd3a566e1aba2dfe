"""Serve controllers: the supervisor process of a run, its connections, and replay of runs that are over."""
