"""Why a rank ended, and how the others stood: read on the node before anything is removed."""
