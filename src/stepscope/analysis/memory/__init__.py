"""What was in memory when: allocations with their lifetimes, from the events of allocators."""
