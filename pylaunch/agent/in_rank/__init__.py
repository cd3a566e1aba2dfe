"""Code inside the process of a rank: it runs in the Python of the script, and uses built-in modules only."""
