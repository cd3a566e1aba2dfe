"""Causes of a failure from the text of logs: parse lines of any launcher, match signatures, rank the causes. Pure."""
