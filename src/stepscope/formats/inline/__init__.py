"""A job's own measurements: labelled events one at a time (`reader`), and phases (`phases`)."""
