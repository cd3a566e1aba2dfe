"""Texts that state facts, and what they indicate."""
