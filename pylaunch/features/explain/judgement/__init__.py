"""Judgement of logs beyond the texts that signatures know. Pure."""
