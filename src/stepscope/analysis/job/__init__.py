"""What the job measured of itself: phases, events, values, and the functions in the residual."""
