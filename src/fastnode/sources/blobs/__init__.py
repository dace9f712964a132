"""Sources of the blobs of checkpoints: consensus clients, file stores, archives."""
