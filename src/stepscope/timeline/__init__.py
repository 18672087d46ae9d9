"""Prepares what the page draws against time: tracks of lanes, tiles at any zoom, and the details of an event.

`tracks` lists what a recording has, `lanes` lays events out so that those of a lane do not overlap, `tiles` merges what
is too narrow to see, `recording` keeps the lanes of an open recording and answers from them, and `details` returns
everything that the store has about one event.
"""
