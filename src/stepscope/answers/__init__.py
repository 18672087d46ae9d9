"""What declares a question, narrows the tables to what was asked, and carries its answer."""
