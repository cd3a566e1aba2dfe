"""Broadcast: files leave the controller about once, in pieces that the hosts pass on to each other."""
