"""Names of hosts: asked for ahead of time, once for the fleet, without waiting for slow ones."""
