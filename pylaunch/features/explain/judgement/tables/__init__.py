"""Readers of pasted tables and launcher lines: the forms of the texts, typed facts, and indications from them. Pure.

A table alone supports a cause or contradicts one. It names a cause alone only where it is plain.
"""
