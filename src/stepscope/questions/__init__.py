"""The questions that can be asked of a recording, one file each."""
