"""Output: tables, boards, findings, JSON documents."""
