"""The tables: the meaning of each column, and what follows from it for readers and writers of tables."""
