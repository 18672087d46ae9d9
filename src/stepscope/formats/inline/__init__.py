"""What a job measured of itself: labelled events one at a time (`reader`), and phases (`phases`)."""
