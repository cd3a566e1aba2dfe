"""Who holds the devices and ports of the hosts: runs, leftovers of nobody, and other people. `gpus` and `clean`."""
