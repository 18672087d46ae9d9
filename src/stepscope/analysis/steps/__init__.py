"""Steps: what runs in them on the device and on the host, and why the device is idle."""
