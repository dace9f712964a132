"""Node as a process: its ports, its life from start to stop, and its workers."""
