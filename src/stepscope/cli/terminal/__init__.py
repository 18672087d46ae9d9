"""What the command line does with its terminal: words, streams, progress, signals."""
