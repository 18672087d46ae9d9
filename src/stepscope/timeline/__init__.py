"""Prepares what the page draws against time: tracks of lanes, tiles at any zoom, and an event's details."""
