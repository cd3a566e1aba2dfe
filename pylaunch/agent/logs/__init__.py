"""Log files of ranks: follow, bound, date and mask them."""
