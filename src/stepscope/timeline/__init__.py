"""What the page draws against time: tracks of lanes, tiles of them at any zoom, and what an event is.

`tracks` lists what a recording has, `lanes` lays events out so that those of a lane do not overlap, `tiles`
merges what is too narrow to be seen, `recording` keeps the lanes of an open recording and answers from
them, and `details` tells all that the store has about one event.
"""
