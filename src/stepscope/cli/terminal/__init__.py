"""The command line's terminal: text, streams, progress, signals."""
