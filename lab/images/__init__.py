"""The image of nodes: releases, recipe, tools that build it."""
