"""Plug-ins that come with StepScope: readers and launchers of tools whose makers have retired them.

`entry_points.txt` declares them as the metadata of an installed package does; no other package imports this one.
"""
