"""Readings of single signatures whose text has several causes: facts around it decide."""
