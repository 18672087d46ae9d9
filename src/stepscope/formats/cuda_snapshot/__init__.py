"""Memory snapshots of torch's device allocators (`torch.cuda.memory._dump_snapshot`)."""
