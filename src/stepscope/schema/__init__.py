"""The tables: what each column holds, and what follows from that for whoever reads or writes them."""
