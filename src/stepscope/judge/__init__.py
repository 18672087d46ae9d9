"""What is worth saying about a recording: facts, rules with one threshold each, and the verdict."""
