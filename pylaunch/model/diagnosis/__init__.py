"""Findings, causes and their confidence."""
