"""Where the blobs of checkpoints come from: consensus clients, file stores, archives."""
